"""Checks that the server runs the settings that were asked, and that its limits cover the load."""

from __future__ import annotations

from spectune.domain.asked import Asked
from spectune.domain.candidate import ENV, Method
from spectune.domain.deployment import Capacity, Meaning
from spectune.domain.finding import Status
from spectune.domain.knobs import KnobValue
from spectune.verify.arguments import depth_given, given, mentions, method_given, same
from spectune.verify.check import Result, ok, unknown, violated, worst
from spectune.verify.observed import Observed
from spectune.verify.traps import worrying

BY_ARGUMENT = "not read back; passed on the command line of our process, and no warning about it"
DEPTH_WORDS = ("n_max", "spec-draft-n-max", "num_speculative_tokens", "speculative-num-steps", "draft size")
"""Words by which engines speak of the depth in warnings."""
TOPK = ("speculative-eagle-topk",)
"""Settings that tell the branches per drafted position. N-gram drafting uses them in another sense."""


def speculation_live(asked: Asked, observed: Observed) -> Result:
    """Whether the server says that speculation is initialised."""
    wanted = f"speculation {'on' if asked.speculates else 'off'}"
    live = observed.seen.speculating
    if live is None:
        return unknown(wanted, "the server does not tell whether it speculates")
    seen = f"speculation is {'on' if live else 'off'}{_source(observed, 'speculating')}"
    return ok(wanted, seen) if live == asked.speculates else violated(wanted, seen)


def speculation_method(asked: Asked, observed: Observed) -> Result:
    """The live method; a command line counts only when speculation is known to be on."""
    method, seen = asked.candidate.speculation.method, observed.seen.method
    wanted = f"method {method.value}"
    if seen is not None:
        verdict = ok if seen is method else violated
        return verdict(wanted, f"method {seen.value}{_source(observed, 'method')}")
    if method is Method.NONE and observed.seen.speculating is False:
        return ok(wanted, "no speculation")
    if observed.ours and observed.seen.speculating and method_given(asked.launch.argv) is method:
        return ok(wanted, f"speculation is on; {BY_ARGUMENT}")
    return unknown(wanted, "the server does not tell its method")


def speculation_depth(asked: Asked, observed: Observed) -> Result:
    """The effective depth, else the positions its counters know, else the command line."""
    speculation = asked.candidate.speculation
    wanted = f"depth k={speculation.depth}"
    counters = observed.seen.counters
    positions = len(counters.accepted_per_position) if counters else 0
    depth = observed.seen.depth
    if depth is not None:
        verdict = ok if depth in speculation.depths else violated
        return verdict(wanted, f"depth k={depth}{_source(observed, 'depth')}")
    if positions > speculation.depth:
        return violated(wanted, f"the counters know {positions} draft positions")
    if positions and positions == speculation.depth:
        return ok(wanted, f"the counters know {positions} draft positions")
    argued = depth_given(asked.launch.argv, speculation.method) == speculation.depth
    live = observed.ours and observed.seen.speculating is True
    if argued and live and not _questioned(asked, observed, *DEPTH_WORDS):
        return ok(wanted, f"speculation is on; {BY_ARGUMENT}")
    return unknown(wanted, "the server does not tell its depth")


def speculation_topk(asked: Asked, observed: Observed) -> Result:
    """Branches per drafted position as the engine reads them back, else the command line."""
    topk = asked.candidate.speculation.topk
    wanted = f"{topk} branches per drafted position"
    for name in TOPK:
        seen = observed.seen.settings.get(name)
        if seen is not None:
            verdict = ok if same(topk, seen) else violated
            return verdict(wanted, f"{name}={seen}{_source(observed, name)}")
    if topk == 1:
        return ok(wanted, "a chain, which is all that this engine tells of")
    passed = next((value for name in TOPK if (value := given(asked.launch.argv, name)) is not None), None)
    if observed.ours and observed.seen.speculating and passed is not None and same(topk, passed):
        return ok(wanted, f"speculation is on; {BY_ARGUMENT}")
    return unknown(wanted, "the server does not tell its branches")


def settings_effective(asked: Asked, observed: Observed) -> Result:
    """Every setting of the candidate against what is read back; the rest against the command line."""
    changed = asked.candidate.changes_from(asked.baseline)
    told = {name: value for name, value in asked.settings.items() if name in changed or name in observed.seen.settings}
    if not told:
        return ok("the service's own settings", "the candidate changes none of them")
    return worst(_setting(asked, observed, name, value) for name, value in sorted(told.items()))


def _setting(asked: Asked, observed: Observed, name: str, value: KnobValue) -> Result:
    wanted, seen = f"{name}={value}", observed.seen.settings.get(name)
    if name.startswith(ENV):
        passed_on = asked.launch.env.get(name.removeprefix(ENV)) == asked.candidate.environment[name.removeprefix(ENV)]
        if observed.ours and passed_on:
            return ok(wanted, f"{name}: in the environment of our process")
        return unknown(wanted, f"{name} is not known to be in the environment of the process that answers")
    if seen is not None:
        shown = f"{name}={seen}{_source(observed, name)}"
        if same(value, seen):
            return ok(wanted, shown)
        translation = _translation(asked, name, value, seen)
        return ok(wanted, f"{shown} ({translation})") if translation else violated(wanted, shown)
    if _questioned(asked, observed, name):
        return unknown(wanted, f"{name} is not read back, and a warning speaks of it")
    passed = given(asked.launch.argv, name)
    if observed.ours and passed is not None and same(value, passed):
        return ok(wanted, f"{name}: {BY_ARGUMENT}")
    if observed.ours and passed is None and value is False:
        return ok(wanted, f"{name}: not read back; not on the command line of our process, as asked")
    return unknown(wanted, f"{name} is neither read back nor on the command line of a process known to be ours")


def _translation(asked: Asked, name: str, value: KnobValue, seen: KnobValue) -> str:
    for rule in asked.launch.translations:
        asks, gets = (
            rule.asked is None or same(rule.asked, value),
            rule.seen is None or same(rule.seen, seen),
        )
        if rule.name == name and asks and gets:
            return rule.because
    return ""


def _questioned(asked: Asked, observed: Observed, *names: str) -> bool:
    lines = worrying(observed.seen.warnings, asked.service.engine)
    return any(mentions(line, name) for line in lines for name in names)


def _source(observed: Observed, key: str) -> str:
    source = observed.seen.sources.get(key)
    return f" ({source})" if source else ""


def fits(asked: Asked, observed: Observed) -> Result:
    """Context of a request against the longest one."""
    if asked.tokens_per_request is None:
        return ok("no known longest request", "nothing to compare")
    return _at_least(observed.seen.capacity.context_per_request, asked.tokens_per_request, "tokens for one request")


def limits(asked: Asked, observed: Observed) -> Result:
    """Requests at a time and KV room, against the largest level. Requests beyond them queue, in production as here:
    that is a price of the candidate unless the service as it is pays it too."""
    capacity, users, longest = observed.seen.capacity, asked.most_users, asked.tokens_per_request
    parts: list[Result] = []
    if users:
        parts.append(_running(asked, capacity, users))
    if users and longest is not None and capacity.kv_tokens is not None and capacity.kv_tokens < users * longest:
        parts.append(
            unknown(
                f"{users * longest} tokens of KV room for {users} users at their longest",
                f"{capacity.kv_tokens} tokens: enough only while not all requests are long",
            )
        )
    return worst(parts or [ok("no fixed number of users", "nothing to compare")])


def _running(asked: Asked, capacity: Capacity, users: int) -> Result:
    found = _at_least(capacity.max_running, users, "requests at a time")
    if found.status is not Status.VIOLATED:
        return found
    queued = f"{capacity.max_running} requests at a time; the others queue"
    before = asked.baseline_capacity.max_running if asked.baseline_capacity else None
    if asked.is_baseline:
        return ok(found.asked, f"{queued}, as the service does today")
    if before is not None and before < users:
        return ok(found.asked, f"{queued}, as in the service today with its {before}")
    return violated(found.asked, queued)


def adjustments(asked: Asked, observed: Observed) -> Result:
    """What the server says that it changed by itself."""
    wanted = "what is asked, or its equivalent by name"
    found = observed.seen.adjustments
    broken = [a for a in found if a.meaning is Meaning.INVALID]
    if broken:
        return violated(wanted, "; ".join(f"{a.name}: {a.because} ({a.text})" for a in broken))
    if not found and not observed.evidence.log.strip():
        return unknown(wanted, "no log to look for changes in")
    told = "; ".join(f"{a.name}: {a.because}" for a in found if a.meaning is Meaning.CHANGED)
    return ok(wanted, told or "no change of meaning")


def _at_least(have: int | None, need: int, what: str) -> Result:
    wanted = f"{need} {what}"
    if have is None:
        return unknown(wanted, f"{what}: the server does not tell")
    return ok(wanted, f"{have} {what}") if have >= need else violated(wanted, f"{have} {what}")
