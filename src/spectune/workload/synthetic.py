"""Prompts of wanted lengths with generated text, never the same twice."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from itertools import islice

from spectune.domain.workload import ENDLESS, Message, Prompt, WorkloadInfo
from spectune.workload import text
from spectune.workload.dealing import check_lane
from spectune.workload.lengths import Lengths, fixed

DOMAIN = "synthetic"
_SAMPLE = 8
_NAME_TOKENS = 5


class SyntheticSource:
    """Deals unseen prompts for ever; see domain.ports.PromptSource."""

    def __init__(
        self,
        input: Lengths,
        output: Lengths,
        seed: int,
        fixed_length: bool,
        tokens_per_word: float,
        max_tokens: int | None,
    ) -> None:
        self._input, self._output, self._seed = input, output, seed
        self._max_tokens = max_tokens
        self._fixed_length = fixed_length
        self._tokens_per_word = tokens_per_word
        name = f"synthetic:in={input.text},out={output.text}" + (",end=fixed" if fixed_length else "")
        self.info = WorkloadInfo(name, self._hash(), ENDLESS, {DOMAIN: ENDLESS}, tuple(self._notes()))

    def deal(self, lane: int, lanes: int) -> Iterator[Prompt]:
        check_lane(lane, lanes)
        return map(self._prompt, range(lane, ENDLESS, lanes))

    def _prompt(self, index: int) -> Prompt:
        seed = f"synthetic {self._seed} {index}"
        rng = random.Random(seed)
        tokens, cap = self._input.draw(rng), self._output.draw(rng)
        if self._max_tokens is not None:
            cap = min(cap, self._max_tokens)
        task = text.ask(seed)
        left = text.words_for(tokens, self._tokens_per_word) - len(task.split()) - _NAME_TOKENS
        content = f"Text {index}: {text.passage(seed, max(1, left))}\n\n{task}"
        name = f"synthetic-{self._seed}-{index}"
        return Prompt(name, DOMAIN, (Message("user", content),), cap, fixed_length=self._fixed_length)

    def _notes(self) -> Iterator[str]:
        yield "generated text, made as it is needed; no prompt repeats"
        yield f"prompt lengths are estimates at {self._tokens_per_word:g} tokens a word, without the chat template"
        if self._fixed_length:
            yield "fixed-length answers (ignore_eos): each ends exactly at its cap, which flatters speculation"
        if self._max_tokens is not None:
            yield f"answers are cut at {self._max_tokens} tokens, where longer ones were drawn"
        yield from self._input.notes
        yield from self._output.notes

    def _hash(self) -> str:
        lengths = (self._input.identity, self._output.identity, self._max_tokens, self._fixed_length)
        options = (lengths, self._seed, self._tokens_per_word)
        sample = list(islice(self.deal(0, 1), _SAMPLE))
        return hashlib.sha256(repr((options, text.fingerprint(), sample)).encode()).hexdigest()


_INPUT, _OUTPUT = fixed(512), fixed(256)


def synthetic(
    input: Lengths = _INPUT,
    output: Lengths = _OUTPUT,
    seed: int = 1,
    fixed_length: bool = False,
    tokens_per_word: float = text.TOKENS_PER_WORD,
    max_tokens: int | None = None,
) -> SyntheticSource:
    """Prompts by distributions of lengths.

    Args:
        input: prompt tokens, an estimate; no prompt is shorter than its task of about 20 tokens.
        output: cap on the answer, in tokens.
        seed: decides texts and lengths.
        fixed_length: let each answer end exactly at its cap instead of by itself.
        tokens_per_word: how many tokens a word of the text is to the server's tokenizer.
        max_tokens: upper bound on the drawn caps.
    """
    return SyntheticSource(input, output, seed, fixed_length, tokens_per_word, max_tokens)
