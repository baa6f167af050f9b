/* Runs of server-sent events that differ in one string of JSON only: nearly all of a streamed answer. */
#ifndef SPECTUNE_RUNS_H
#define SPECTUNE_RUNS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct run {
    const char *body;
    int64_t n, at;                /* its bytes, and where the run begins; afterwards where it ended */
    const char *before, *after;   /* what every event has in front of its string, and behind it */
    int64_t before_n, after_n;
    const int64_t *stamps, *ends; /* of every read: its time, and how much of the body there was after it */
    int64_t reads;
    int64_t *event_stamps;        /* room for the stamp of each event: that of the read which completed it */
    char *strings;                /* room for all strings as one array of JSON */
    char *text;                   /* room for all strings put together */
    int64_t strings_n, text_n;    /* text_n is -1 where the text is not simply the strings put together */
};

/* Where the string ends that begins here; NULL if it is empty, has no end, or holds what a string of JSON cannot.
 * Escapes and characters beyond ASCII are not decoded here, but told. */
static const char *string_end(const char *from, const char *end, bool *plain) {
    const char *at = from;
    for (; at < end && *at != '"'; at++) {
        if ((unsigned char)*at < ' ') return NULL;
        if (*at == '\\' || (unsigned char)*at > 127) *plain = false;
        if (*at == '\\' && ++at == end) return NULL;
    }
    return at < end && at > from ? at : NULL;
}

static int64_t first_read_up_to(const struct run *r, int64_t at) {
    int64_t low = 0, high = r->reads - 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (r->ends[middle] < at) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Reads events as long as they follow, and returns how many there were. */
int64_t spectune_run(struct run *r) {
    const char *at = r->body + r->at, *end = r->body + r->n;
    char *out = r->strings, *text = r->text;
    bool plain = true;
    int64_t events = 0, read = r->reads ? first_read_up_to(r, r->at + 1) : 0;
    *out++ = '[';
    while (r->reads && end - at > r->before_n && !memcmp(at, r->before, (size_t)r->before_n)) {
        const char *from = at + r->before_n, *stop = string_end(from, end, &plain);
        if (!stop || end - stop < r->after_n || memcmp(stop, r->after, (size_t)r->after_n)) break;
        if (events) *out++ = ',';
        memcpy(out, from - 1, (size_t)(stop - from) + 2);
        out += stop - from + 2;
        memcpy(text, from, (size_t)(stop - from));
        text += stop - from;
        at = stop + r->after_n;
        while (read < r->reads - 1 && r->ends[read] < at - r->body) read++;
        r->event_stamps[events++] = r->stamps[read];
    }
    *out++ = ']';
    r->at = at - r->body;
    r->strings_n = out - r->strings;
    r->text_n = plain ? text - r->text : -1;
    return events;
}

#endif
