/* The mock's vocabulary: common words, each a single token for most tokenizers when it follows a space. */
#ifndef MOCKD_WORDS_H
#define MOCKD_WORDS_H

static const char *const words[] = {
    "time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state",
    "family", "student", "group", "country", "problem", "hand", "part", "place", "case", "week", "company",
    "system", "program", "question", "work", "number", "night", "point", "home", "water", "room", "mother", "area",
    "money", "story", "fact", "month", "lot", "right", "study", "book", "eye", "job", "word", "business", "issue",
    "side", "kind", "head", "house", "service", "friend", "father", "power", "hour", "game", "line", "end",
    "member", "law", "car", "city", "name", "team", "minute", "idea", "body", "back", "parent", "face", "level",
    "office", "door", "health", "person", "art", "war", "history", "party", "result", "change", "morning", "reason",
    "research", "girl", "guy", "moment", "air", "teacher", "force", "education", "foot", "boy", "age", "policy",
    "process", "music", "market", "sense", "nation", "plan", "college", "interest", "death", "experience", "effect",
    "use", "class", "control", "care", "field", "development", "role", "effort", "rate", "heart", "drug", "show",
    "leader", "light", "voice", "wife", "police", "mind", "price", "report", "decision", "son", "view", "town",
    "road", "arm", "difference", "value", "building", "action", "season", "society", "tax", "director", "position",
    "player", "record", "paper", "space", "ground", "form", "event", "official", "matter", "center", "couple",
    "site", "project", "activity", "star", "table", "need", "court", "oil", "situation", "cost", "industry",
    "figure", "street", "image", "phone", "data", "picture", "practice", "piece", "land", "product", "doctor",
    "wall", "patient", "worker", "news", "test", "movie", "north", "love", "step", "south", "type", "floor",
    "source", "film", "tree", "board", "cell", "sound", "shot", "fire", "future", "blood", "summer", "letter",
    "glass", "bank", "river", "stone", "window", "color", "train", "island", "garden", "bridge", "ship", "horse",
    "metal", "winter", "spring", "corner", "circle", "square", "engine", "planet", "forest", "ocean", "valley",
    "cloud", "storm", "flower", "animal", "bird", "fish", "paint", "song", "dance", "kitchen", "bottle", "copper",
    "pencil", "basket", "blanket", "mirror", "candle", "lamp", "chair", "shirt", "coat", "shoe", "hat", "ring",
    "silver",
};
enum { WORDS = sizeof words / sizeof *words };

#endif
