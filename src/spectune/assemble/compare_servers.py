"""Comparing the answers of two servers that somebody else started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from spectune.assemble.endpoints import Endpoint
from spectune.assemble.measuring import here
from spectune.domain.asked import Asked
from spectune.domain.candidate import Candidate
from spectune.domain.deployment import Launch, Service
from spectune.domain.errors import InputError
from spectune.domain.finding import Answer, ProbeRun, Verification
from spectune.domain.ports import LoadGenerator, PromptSource, Target
from spectune.domain.workload import Cell, Level, Prompt, Sampling
from spectune.verify.first_words import FEWEST
from spectune.verify.gate import Gate
from spectune.verify.probes import FULL, Size, probe_set
from spectune.verify.sampling import PLENTY, sampled_set

_ANSWERED = frozenset({"generation", "answers", "answers-in-company", "answers-sampled"})


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two servers are asked.

    Attributes:
        users: requests in flight, besides one at a time.
        size: how many prompts for greedy answers, and how long these may be.
        times: how often each of the sampled prompts is asked; 0 asks none.
        temperature: of the sampled prompts; None leaves it to each server, so that their defaults are compared too.

    Raises:
        InputError: the sampled prompts can't tell anything.
    """

    users: int = 8
    size: Size = FULL
    times: int = PLENTY.times
    temperature: float | None = None

    def __post_init__(self) -> None:
        if 0 < self.times < FEWEST:
            raise InputError(f"--sampled {self.times} is too few to tell anything", f"{FEWEST} or more, or 0 for none.")
        if self.times and self.temperature == 0:
            raise InputError("at --temperature 0 nothing is sampled", "--sampled 0 asks for greedy answers alone.")

    @property
    def sampled(self) -> tuple[Prompt, ...]:
        """The sampled prompts."""
        return sampled_set(self.temperature, None, replace(PLENTY, times=self.times))


def against(
    endpoint: Endpoint,
    reference: Endpoint,
    prompts: PromptSource,
    progress: Callable[[str], None],
    what: Comparison | None = None,
) -> Verification:
    """Holds the answers of a server against those of another: greedy ones alone and in company, and how the first words
    of sampled ones are distributed.

    The reference is asked twice, so that what it differs from itself is not held against the other.

    Args:
        prompts: the domains to ask about, beside JSON, tool calls and long outputs.
        what: how much is asked.

    Returns:
        The findings "generation", "answers", "answers-in-company" and, unless no sampled prompts are wanted,
        "answers-sampled"; with an example of what differs.
    """
    what = what or Comparison()
    probes = probe_set(what.size, islice(prompts.deal(0, 1), what.size.prompts))
    machine = here()

    def runs(server: Endpoint, name: str) -> tuple[ProbeRun, ...]:
        load = machine.generator(replace(server.options(), processes=1))
        return _runs(load, server.target(), probes, what, lambda text: progress(f"asking {name} {text}"))

    first, second = runs(reference, "the reference"), runs(reference, "the reference again")
    ours = runs(endpoint, "the server")
    asked = replace(_asked(endpoint, reference, what), baseline_probes=(first, second))
    found = Gate().before(asked, endpoint.evidence(), endpoint.seen(), ours)
    return Verification(tuple(finding for finding in found.findings if finding.check in _ANSWERED))


def _runs(
    load: LoadGenerator, target: Target, probes: tuple[Prompt, ...], what: Comparison, progress: Callable[[str], None]
) -> tuple[ProbeRun, ...]:
    found = []
    for together in sorted({1, what.users}):
        progress("one at a time" if together == 1 else f"as {together} users")
        found.append(ProbeRun(together, load.ask(target, probes, together)))
    sampled = what.sampled
    if sampled:
        progress(f"{what.times} times over, sampled")
        if all(answer.error for answer in found[-1].answers):
            # A server that answers nothing would be waited for at every prompt.
            answers = tuple(
                Answer(prompt.id, "", None, "not asked, as no other prompt was answered") for prompt in sampled
            )
        else:
            answers = load.ask(target, sampled, what.users)
        found.append(ProbeRun(what.users, answers))
    return tuple(found)


def _asked(endpoint: Endpoint, reference: Endpoint, what: Comparison) -> Asked:
    """All that the checks on answers want to know: which server is the reference, and that this one is not it."""
    launch = Launch((), {}, endpoint.url, "/health", endpoint.paths, None, endpoint.model_id)
    engine = endpoint.engine.name if endpoint.engine else ""
    service = Service(engine, "", "", {}, {}, "", 0, endpoint.model_id)
    candidate, baseline = Candidate(knobs={"server": endpoint.url}), Candidate(knobs={"server": reference.url, "as": 1})
    cell = Cell(Level(what.users), Sampling(what.temperature if what.times else 0.0))
    return Asked(service, candidate, baseline, launch, (cell,), 0.0)
