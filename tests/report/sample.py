"""Hand-made campaigns, shaped like real ones, so that the report can be tested and looked at without an engine."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Capacity, Deployment, Hardware, Seen, Service
from spectune.domain.estimate import Estimate, Ratio
from spectune.domain.events import (
    CampaignEnded,
    CampaignOpened,
    CampaignResumed,
    Decided,
    Deployed,
    Event,
    Measured,
    Provenance,
    TrialEnded,
    TrialStarted,
    Verified,
)
from spectune.domain.finding import Finding, Status, Verification
from spectune.domain.history import History
from spectune.domain.measurement import (
    Acceptance,
    Doubt,
    Measurement,
    Outcome,
    Phase,
    RequestRecord,
    TokenSource,
)
from spectune.domain.metrics import MetricName
from spectune.domain.spec import CampaignSpec, ConstraintSpec, SearchSpec, SpeculationSpace, WorkloadSpec
from spectune.domain.trial import Purpose, TrialState
from spectune.domain.verdict import Best, Conclusion, Decision, Effect, Verdict
from spectune.domain.workload import Cell, WorkloadInfo

START = 1_795_989_600.0
DOMAINS = ("code_edit", "chat", "extraction", "prose")
DRAFT_MODEL = "/home/ada/.cache/spectune/models/draft-q8_0.gguf"
BASE_SPEED = {1: 49.0, 2: 37.5, 4: 23.6}
BASE = Candidate()

GAINS = {
    (Method.DRAFT, 1): (1.25, 1.06, 1.20, 0.97),
    (Method.DRAFT, 2): (1.40, 1.06, 1.32, 0.94),
    (Method.DRAFT, 3): (1.58, 1.07, 1.40, 0.93),
    (Method.DRAFT, 4): (1.51, 0.91, 1.33, 0.80),
    (Method.DRAFT, 5): (1.43, 0.82, 1.24, 0.72),
    (Method.NGRAM, 4): (1.21, 0.99, 1.32, 0.98),
    (Method.NGRAM, 8): (1.25, 0.96, 1.36, 0.95),
}
"""Speed against no speculation, one user at temperature 0, by domain."""

ACCEPT_RATE = {Method.DRAFT: (0.86, 0.60, 0.80, 0.56), Method.NGRAM: (0.55, 0.2, 0.62, 0.16)}


def draft(k: int) -> Candidate:
    return Candidate(Speculation(Method.DRAFT, k, draft_model=DRAFT_MODEL))


def ngram(k: int) -> Candidate:
    return Candidate(Speculation(Method.NGRAM, k, settings={"spec-ngram-simple-size-n": 4}))


def true_gain(candidate: Candidate, users: int, temperature: float, domain: str) -> float:
    spec = candidate.speculation
    if spec.method is Method.NONE:
        return 1.0
    gain = GAINS[(spec.method, spec.depth)][DOMAINS.index(domain)]
    gain *= 1.0 if temperature == 0 else 0.94
    return float(gain ** {1: 1.0, 2: 0.9, 4: 0.75}[users] * {1: 1.0, 2: 0.99, 4: 0.95}[users])


def overall_gain(candidate: Candidate, cell: Cell) -> float:
    users, temperature = cell.level.users, cell.sampling.temperature or 0.0
    return 4 / sum(1 / true_gain(candidate, users, temperature, domain) for domain in DOMAINS)


@dataclass
class Recorder:
    """Writes the events of a campaign as the loop would."""

    spec: CampaignSpec
    provenance: Provenance
    seed: int = 7
    events: list[Event] = field(default_factory=list)
    at: float = START
    trial: int = 0
    penalty: float = 1.0
    """What speculation costs on top, as a factor of every candidate's speed but the baseline's."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        service = Service(
            "llama.cpp", "/usr/local/bin/llama-server", "/models/SmolLM2-135M-Instruct-Q4_1.gguf",
            {"threads": 2, "parallel": 4}, {"OMP_WAIT_POLICY": "PASSIVE"}, "127.0.0.1", 8093, "smollm2",
        )  # fmt: skip
        self.events.append(CampaignOpened(self.at, self.spec, service, BASE, self.provenance))

    @property
    def history(self) -> History:
        return History.of(self.events)

    def start(self, candidate: Candidate, purpose: Purpose, reason: str, attempt: int = 1) -> None:
        self.trial += attempt == 1
        self.at += 3
        self.events.append(TrialStarted(self.at, self.trial, attempt, candidate, purpose, reason))

    def deploy(self, candidate: Candidate, findings: tuple[Finding, ...] = ()) -> None:
        self.at += 2
        self.events.append(Deployed(self.at, self.trial, deployment(candidate, self.at, self.random)))
        self.events.append(Verified(self.at + 1, self.trial, Verification(findings or tuple(all_ok(candidate)))))

    def measure(self, candidate: Candidate, doubts: dict[str, tuple[Doubt, ...]] | None = None) -> None:
        drift = math.exp(self.random.gauss(0, 0.03)) * (1.0 if candidate.id == BASE.id else self.penalty)
        for cell in self.spec.cells:
            measured, records = measurement(candidate, cell, self.at, drift, self.random)
            measured = replace(measured, doubts=(doubts or {}).get(cell.key, ()))
            self.at += 6.2
            self.events.append(Measured(self.at, self.trial, measured, records))

    def end(self, state: TrialState, reason: str = "", verdict: Verdict | None = None, log: str = "") -> None:
        self.at += 1
        self.events.append(TrialEnded(self.at, self.trial, state, reason, log))
        if verdict is not None:
            self.events.append(Decided(self.at, self.trial, verdict))

    def whole(self, candidate: Candidate, purpose: Purpose, reason: str, verdict: Verdict) -> None:
        self.start(candidate, purpose, reason)
        self.deploy(candidate)
        self.measure(candidate)
        self.end(TrialState.VALID, verdict=verdict)


def deployment(candidate: Candidate, at: float, rng: random.Random) -> Deployment:
    spec = candidate.speculation
    argv = ["/usr/local/bin/llama-server", "-m", "/models/SmolLM2-135M-Instruct-Q4_1.gguf", "--host", "127.0.0.1"]
    argv += ["--port", "8093", "--threads", "2", "--parallel", "4", "--ctx-size", "8192", "--metrics", "--slots"]
    if spec.method is Method.DRAFT:
        argv += ["--model-draft", DRAFT_MODEL, "--spec-type", "draft-simple", "--spec-draft-n-max", str(spec.depth)]
    if spec.method is Method.NGRAM:
        argv += ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4"]
        argv += ["--spec-ngram-simple-size-m", str(spec.depth)]
    kv = 184_549_376 + (12_582_912 if spec.method is Method.DRAFT else 0)
    seen = Seen(
        speculating=spec.method is not Method.NONE,
        method=spec.method,
        depth=spec.depth,
        settings={"threads": 2, "parallel": 4, "ctx-size": 8192, "cont-batching": True, "cache-reuse": 0},
        sources={"speculating": "GET /slots", "method": "log", "depth": "GET /slots", "model": "GET /v1/models",
                 "threads": "log", "parallel": "GET /props", "ctx-size": "GET /slots"},
        model="SmolLM2-135M-Instruct-Q4_1.gguf",
        version="b11434-1a2b3c4d",
        capacity=Capacity(8192, 4, 2048, kv),
        warnings=("llama_context: n_ctx_per_seq (2048) < n_ctx_train (8192)",),
    )  # fmt: skip
    load = round(rng.uniform(0.2, 1.1), 2)
    return Deployment(tuple(argv), {"OMP_WAIT_POLICY": "PASSIVE"}, "http://127.0.0.1:8093", 4242, at, 1.4, load, seen)


def all_ok(candidate: Candidate) -> Iterator[Finding]:
    spec = candidate.speculation
    yield Finding("process-alive", Status.OK, "one server process of ours", "pid 4242 holds port 8093")
    yield Finding("model", Status.OK, "SmolLM2-135M-Instruct-Q4_1.gguf", "SmolLM2-135M-Instruct-Q4_1.gguf")
    yield Finding("speculation-live", Status.OK, spec.label, spec.label)
    yield Finding("effective-settings", Status.OK, "threads=2, parallel=4", "threads=2, parallel=4")
    yield Finding("greedy-answers", Status.OK, "6 answers as without speculation", "6 of 6 equal")


def estimate(value: float, spread: float, n: int, rng: random.Random) -> Estimate:
    centre = value * math.exp(rng.gauss(0, spread / 2.5))
    return Estimate(centre, centre * (1 - spread), centre * (1 + spread), n)


def measurement(
    candidate: Candidate, cell: Cell, at: float, drift: float, rng: random.Random
) -> tuple[Measurement, tuple[RequestRecord, ...]]:
    users, temperature = cell.level.users, cell.sampling.temperature or 0.0
    base = BASE_SPEED[users] * drift
    speed = base * overall_gain(candidate, cell)
    by_domain = {
        domain: {
            MetricName.PER_USER_SPEED: estimate(
                base * true_gain(candidate, users, temperature, domain), 0.045, 6 * users, rng
            )
        }
        for domain in DOMAINS
    }
    ttft = 0.045 * (1 + 0.5 * users)
    metrics = {
        MetricName.PER_USER_SPEED: estimate(speed, 0.028, 24 * users, rng),
        MetricName.AGGREGATE_SPEED: estimate(speed * users * 0.93, 0.03, 24 * users, rng),
        MetricName.TTFT: estimate(ttft, 0.1, 24 * users, rng),
        MetricName.TPOT: estimate(1 / speed, 0.028, 24 * users, rng),
    }
    acceptance, parts = drafting(candidate, temperature)
    window = 5.8
    made = Measurement(
        cell, at, window, metrics, by_domain, {Outcome.OK: 8 * users}, users * 0.98, acceptance, parts,
        load_average=(round(rng.uniform(0.8, 1.6), 2), round(rng.uniform(1.6, 2.4), 2)), stopped="precise enough",
    )  # fmt: skip
    return made, tuple(records(users, ttft, speed, rng))


def drafting(candidate: Candidate, temperature: float) -> tuple[Acceptance | None, dict[str, Acceptance]]:
    spec = candidate.speculation
    if spec.method is Method.NONE:
        return None, {}
    parts = {}
    for domain, rate in zip(DOMAINS, ACCEPT_RATE[spec.method], strict=True):
        first = rate * (1 if temperature == 0 else 0.8)
        shares = tuple(first ** (1 + 0.92 * i) for i in range(spec.depth))
        drafts = 400
        parts[domain] = Acceptance(drafts, drafts * spec.depth, round(drafts * sum(shares)), shares, "timings")
    drafts = sum(p.drafts for p in parts.values())
    shares = tuple(sum(p.per_position[i] for p in parts.values()) / 4 for i in range(spec.depth))
    accepted = sum(p.accepted for p in parts.values())
    return Acceptance(drafts, drafts * spec.depth, accepted, shares, "GET /metrics"), parts


def records(users: int, ttft: float, speed: float, rng: random.Random) -> Iterator[RequestRecord]:
    for index in range(8 * users):
        sent = index * 400_000_000
        first = sent + int(1e9 * ttft * rng.uniform(0.8, 1.4))
        tokens = rng.randint(40, 96)
        last = first + int(1e9 * (tokens - 1) / speed)
        phase = Phase.WARMUP if index < users else Phase.STEADY
        yield RequestRecord(
            f"p{index:03}", DOMAINS[index % 4], Outcome.OK, phase, sent, sent, first, last, last + 1000, tokens,
            TokenSource.USAGE, 60, 0, tokens,
        )  # fmt: skip


def verdict(candidate: Candidate, decision: Decision, reason: str, cells: tuple[Cell, ...], width: float) -> Verdict:
    ratios = {cell.key: overall_gain(candidate, cell) for cell in cells}
    overall = math.exp(sum(math.log(r) for r in ratios.values()) / len(ratios))
    effects = tuple(Effect(key, "", Ratio(r, r * (1 - width), r * (1 + width), 24)) for key, r in ratios.items())
    ratio = Ratio(overall, overall * (1 - width), overall * (1 + width), 144)
    return Verdict(decision, reason, BASE.id, ratio, effects)


def best_rows(candidates: tuple[Candidate, ...], cells: tuple[Cell, ...]) -> Iterator[Best]:
    """Truth with a 5 % interval: the best gain that clears it, the nearest other named where it can't be told apart."""
    for cell in cells:
        users, temperature = cell.level.users, cell.sampling.temperature or 0.0
        for domain in ("", *DOMAINS):
            gains = {
                c.id: true_gain(c, users, temperature, domain) if domain else overall_gain(c, cell)
                for c in candidates
                if c.id != BASE.id
            }
            ranked = sorted(gains, key=lambda key: -gains[key])
            top, second = ranked[0], ranked[1]
            ratio = Ratio(gains[top], gains[top] * 0.955, gains[top] * 1.047, 48)
            if ratio.low <= 1.0:
                yield Best(cell.key, domain, BASE.id, None, top if ratio.high > 1.0 else "")
            else:
                yield Best(cell.key, domain, top, ratio, second if gains[second] > ratio.low else "")


def spec(**changes: object) -> CampaignSpec:
    made = CampaignSpec(
        "demo",
        search=SearchSpec(
            (SpeculationSpace(Method.DRAFT, (1, 2, 3, 4, 5), "builtin"), SpeculationSpace(Method.NGRAM, (4, 8)))
        ),
        constraints=ConstraintSpec(min_kv_tokens=8192, min_running_requests=4, max_slowdown=0.15),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def provenance(simulated: str = "") -> Provenance:
    return Provenance(
        "0.1.0", "b11434-1a2b3c4d",
        Hardware("ada-laptop", "AMD Ryzen 5 5600U with Radeon Graphics", 2, 8 * 2**30, (), "6.1.0-37-amd64"),
        WorkloadInfo("builtin", "9f2c" * 16, 72, {"code_edit": 20, "chat": 18, "extraction": 17, "prose": 17}),
        {"model": "51ab" * 16, "draft model": "77e0" * 16, "binary": "c0de" * 16}, simulated,
    )  # fmt: skip


LATE = Doubt(
    "event-loop-late", "the load generator was late by up to 41 ms (limit 20 ms)", "Leave it a core of its own."
)
NO_DRAFTS = Finding(
    "drafts-happen", Status.VIOLATED, "at least one verify step with a draft", "0 drafts in 6 probe answers",
    "Without drafts the trial would measure plain decoding under another name.", "Try a smaller size-n.",
)  # fmt: skip


def decided() -> History:
    """A winner: draft k=3, with an INVALID trial, doubts, an inconclusive one, a kill, and ABBA confirmation."""
    log = Recorder(spec(), provenance())
    cells = log.spec.cells

    def judged(c: Candidate, decision: Decision, reason: str, width: float = 0.05) -> Verdict:
        return verdict(c, decision, reason, cells, width)

    first = Verdict(Decision.KEEP, "the service as it is; everything is compared with it", BASE.id)
    log.whole(BASE, Purpose.BASELINE, "the service as it is", first)
    for k, reason in ((1, "smallest depth first"), (2, "k=1 paid"), (3, "k=2 paid")):
        log.whole(draft(k), Purpose.EXPLORE, reason, judged(draft(k), Decision.KEEP, "faster at one and two users"))
    log.start(draft(4), Purpose.EXPLORE, "k=3 paid")
    log.events.append(CampaignResumed(log.at + 40, "0.1.0", ("llama-server pid 4242",)))
    log.at += 45
    log.start(draft(4), Purpose.EXPLORE, "k=3 paid", attempt=2)
    log.deploy(draft(4))
    log.measure(draft(4))
    log.end(TrialState.VALID, verdict=judged(draft(4), Decision.REVERT, "slower than draft k=3 in chat and prose"))
    log.start(draft(5), Purpose.EXPLORE, "one more depth, to see the curve turn")
    log.deploy(draft(5))
    log.measure(draft(5), {"c4 T0": (LATE,), "c4 T0.7": (LATE,)})
    log.end(TrialState.VALID, verdict=judged(draft(5), Decision.REVERT, "slower than the baseline at four users"))
    log.whole(
        ngram(4), Purpose.EXPLORE, "no draft model to hold in memory",
        judged(ngram(4), Decision.INCONCLUSIVE, "the interval holds both a gain and a loss worth acting on", 0.12),
    )  # fmt: skip
    log.start(ngram(8), Purpose.EXPLORE, "longer copies")
    log.deploy(ngram(8), (*all_ok(ngram(8)), NO_DRAFTS))
    log.end(
        TrialState.INVALID, "drafts-happen: no draft was made in 6 probe answers", log="slot released | n_draft = 0"
    )
    unknown = Finding("greedy-answers", Status.UNKNOWN, "6 answers as without speculation", "1 of 6 timed out",
                      "Wrong answers are not a speed.", "Run it again.", blocks_measurement=False)  # fmt: skip
    for number, arm in enumerate((BASE, draft(3), draft(3), BASE), 1):
        log.start(arm, Purpose.CONFIRM, f"interleaved comparison, arm {number} of 4 (A B B A)")
        log.deploy(arm, (*tuple(all_ok(arm))[:4], unknown) if number == 3 else ())
        log.measure(arm)
        state = TrialState.UNKNOWN if number == 3 else TrialState.VALID
        reason = "greedy-answers: one probe timed out" if number == 3 else ""
        log.end(state, reason, replace(judged(arm, Decision.KEEP, "arm of the confirmation", 0.03), provisional=False))
    won = verdict(draft(3), Decision.KEEP, "", cells, 0.026).overall
    tried = (BASE, *(draft(k) for k in range(1, 6)), ngram(4))
    best = tuple(best_rows(tried, cells))
    reason = "draft k=3 beats the baseline in 4 interleaved deployments; its interval is above the minimum gain of 3 %"
    log.events.append(CampaignEnded(log.at, Conclusion(draft(3).id, True, reason, won, best, 0.029)))
    return log.history


def nothing_better() -> History:
    """Nothing beats the baseline, on a simulated engine with forced lengths."""
    forced = WorkloadSpec(ignore_eos=True, temperatures=(None,), concurrency=(4,))
    log = Recorder(spec(workload=forced), provenance("spectune's own simulated engine, seed 3"), seed=11, penalty=0.86)
    cells = log.spec.cells
    log.whole(BASE, Purpose.BASELINE, "the service as it is", Verdict(Decision.KEEP, "the baseline", BASE.id))
    for k in (1, 2):
        lost = verdict(draft(k), Decision.REVERT, "no gain at four users", cells, 0.05)
        log.whole(draft(k), Purpose.EXPLORE, "", lost)
    best = tuple(Best(c.key, d, BASE.id, None, draft(1).id if d == "code_edit" else "") for c in cells for d in DOMAINS)
    log.events.append(CampaignEnded(log.at, Conclusion(BASE.id, False, "no candidate gains 3 %", None, best, 0.02)))
    return log.history


def broken_baseline() -> History:
    """The baseline itself is INVALID, so there is no decision."""
    log = Recorder(spec(), provenance())
    log.start(BASE, Purpose.BASELINE, "the service as it is")
    wrong = Finding(
        "model", Status.VIOLATED, "SmolLM2-135M", "Qwen2.5-0.5B", "Another model answers.", "Check the path."
    )
    log.deploy(BASE, (wrong,))
    log.end(TrialState.INVALID, "model: the server serves Qwen2.5-0.5B")
    log.events.append(CampaignEnded(log.at, Conclusion(None, False, "the baseline could not be measured")))
    return log.history


def running() -> History:
    """Cut off in the middle of the third trial."""
    log = Recorder(spec(), provenance())
    log.whole(BASE, Purpose.BASELINE, "the service as it is", Verdict(Decision.KEEP, "the baseline", BASE.id))
    kept = verdict(draft(1), Decision.KEEP, "faster at one user", log.spec.cells, 0.05)
    log.whole(draft(1), Purpose.EXPLORE, "smallest depth first", kept)
    log.start(draft(2), Purpose.EXPLORE, "k=1 paid")
    log.deploy(draft(2))
    return log.history


def just_opened() -> History:
    return Recorder(spec(), provenance()).history


EVIL = "<script>alert('x')</script>"


def hostile() -> History:
    """Every string that comes from outside carries markup, and a chart label tries to end its script."""
    events = []
    bad = Candidate(
        Speculation(Method.DRAFT, 1, draft_model=EVIL),
        {"note": "</script><script>alert(1)</script><img src=x onerror=y>"},
    )
    for event in running_events(bad):
        if isinstance(event, Deployed):
            seen = replace(event.deployment.seen, warnings=(EVIL,), settings={EVIL: EVIL}, sources={EVIL: EVIL})
            argv = (*event.deployment.argv, "--alias", EVIL)
            event = replace(event, deployment=replace(event.deployment, argv=argv, env={"X": EVIL}, seen=seen))
        if isinstance(event, Verified):
            event = replace(event, verification=Verification((Finding(EVIL, Status.UNKNOWN, EVIL, EVIL, EVIL, EVIL),)))
        if isinstance(event, Measured):
            doubt = Doubt(EVIL, EVIL, EVIL)
            domains = {EVIL: event.measurement.by_domain["chat"]}
            event = replace(event, measurement=replace(event.measurement, by_domain=domains, doubts=(doubt,)))
        events.append(event)
    ending = Conclusion(
        bad.id, True, EVIL, Ratio(1.2, 1.1, 1.3, 4), (Best("c1 T0", EVIL, bad.id, None, bad.id),), 0.01, {EVIL: EVIL}
    )
    return History.of([*events, CampaignEnded(START + 900, ending)])


def running_events(candidate: Candidate) -> list[Event]:
    log = Recorder(spec(), provenance(EVIL))
    log.whole(BASE, Purpose.BASELINE, EVIL, Verdict(Decision.KEEP, EVIL, BASE.id))
    log.start(candidate, Purpose.EXPLORE, EVIL)
    log.deploy(candidate)
    log.measure(draft(1))
    log.end(TrialState.VALID, EVIL, verdict(draft(1), Decision.KEEP, EVIL, log.spec.cells, 0.05), EVIL)
    return log.events


HISTORIES = {
    "decided": decided,
    "nothing-better": nothing_better,
    "broken-baseline": broken_baseline,
    "running": running,
    "just-opened": just_opened,
    "hostile": hostile,
}
