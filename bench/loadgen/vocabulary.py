"""A tokenizer of the mock's words, one token each, as other clients want it: a folder that transformers can load."""

from __future__ import annotations

import json
import re
from pathlib import Path

_SPECIAL = ("<unk>", "<s>", "</s>")


def words() -> tuple[str, ...]:
    """The mock's vocabulary, from its source."""
    text = Path(__file__).with_name("words.h").read_text()
    return tuple(re.findall(r'"([a-z]+)"', text))


def write_tokenizer(folder: Path) -> Path:
    """Writes it into a folder, and returns that."""
    folder.mkdir(parents=True, exist_ok=True)
    names = (*_SPECIAL, *words())
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True,
            }
            for number, name in enumerate(_SPECIAL)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {name: n for n, name in enumerate(names)}, "unk_token": "<unk>"},
    }  # fmt: skip
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 1_000_000,
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "chat_template": "{% for message in messages %}{{ message['content'] }} {% endfor %}",
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
