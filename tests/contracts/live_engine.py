"""What every Engine must do on a live server, deployed as campaigns deploy it. A suite gives it three
fixtures: engine, candidate, and service, without speculation and on a free port."""

from __future__ import annotations

import json
import socket
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from spectune.assemble.clock import SystemClock
from spectune.deploy.listeners import is_free, place_of
from spectune.deploy.process import LocalProcesses
from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Counters, Meaning, Seen, Service
from spectune.domain.errors import SpectuneError
from spectune.domain.ports import Engine, Running

TOKENS = 40


class LiveEngineContract:
    @pytest.fixture
    def engine(self) -> Engine:
        raise NotImplementedError

    @pytest.fixture
    def candidate(self) -> Candidate:
        """Parametrised by the suite: with and without speculation."""
        raise NotImplementedError

    @pytest.fixture
    def deployer(self, tmp_path: Path) -> LocalProcesses:
        return LocalProcesses(tmp_path, SystemClock())

    def test_a_candidate_runs_as_asked_counts_its_tokens_and_leaves_nothing(
        self, engine: Engine, deployer: LocalProcesses, service: Service, candidate: Candidate
    ) -> None:
        launch = engine.launch(service, candidate)
        with deployer.deploy(launch, "live") as running:
            before = _seen(engine, running, launch.probe_paths)
            told = sum(_answer(launch.url, launch.model_id, number) for number in range(2))
            after = _seen(engine, running, launch.probe_paths)
        assert is_free(place_of(service.url))
        asked = candidate.speculation
        assert after.speculating is (asked.method is not Method.NONE)
        assert after.method is asked.method
        assert after.depth in asked.depths
        assert after.model_id == service.model_id
        assert after.capacity.kv_tokens
        assert after.capacity.max_running
        assert all(one.meaning is not Meaning.INVALID for one in after.adjustments)
        first, last = _counted(before), _counted(after)
        assert last.output_tokens is not None
        assert last.output_tokens - (first.output_tokens or 0) == told
        drafts = (last.drafts or 0) - (first.drafts or 0)
        assert drafts == 0 or after.speculating
        # Others look drafts up in the text, and may find none.
        assert drafts > 0 or asked.method not in {Method.MTP, Method.EAGLE3, Method.DRAFT}

    def test_a_taken_port_is_refused_by_name(self, engine: Engine, deployer: LocalProcesses, service: Service) -> None:
        launch = engine.launch(service, engine.baseline(service))
        with socket.socket() as other:
            other.bind((service.host, service.port))
            other.listen()
            with pytest.raises(SpectuneError, match=str(service.port)), deployer.deploy(launch, "live"):
                pass

    def test_a_flag_that_it_lacks_ends_by_name(
        self, engine: Engine, deployer: LocalProcesses, service: Service
    ) -> None:
        launch = engine.launch(service, engine.baseline(service))
        with (
            pytest.raises(SpectuneError) as caught,
            deployer.deploy(replace(launch, argv=(*launch.argv, "--no-such-flag")), "live"),
        ):
            pass
        named = engine.diagnose(caught.value)  # type: ignore[arg-type]
        assert "--no-such-flag" in named.message
        assert is_free(place_of(service.url))


def _seen(engine: Engine, running: Running, paths: tuple[str, ...]) -> Seen:
    return engine.read(running.observe(paths))


def _counted(seen: Seen) -> Counters:
    assert seen.counters is not None
    return seen.counters


def _answer(url: str, model: str, number: int) -> int:
    """Asks once and returns how many tokens the server says that it wrote."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": f"{number}: one two three one two three one two three one two"}],
        "max_tokens": TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.loads(answer.read())["usage"]["completion_tokens"])
