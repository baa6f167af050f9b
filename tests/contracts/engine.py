"""What every Engine must do. A suite for an adapter subclasses EngineContract and gives it six fixtures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spectune.domain.candidate import Candidate, Method
from spectune.domain.deployment import Capacity, Evidence, ListenerOwner, Page, Seen, Service
from spectune.domain.errors import EngineFailure, FailureKind, InputError
from spectune.domain.knobs import Knob, KnobKind
from spectune.domain.ports import Engine

any_input = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)

JUNK = ("", "\x00", "[[[[[", '{"data": 1}', "[1, null]", '[{"speculative": 1}]', "a b c\n" * 50, "\ud800", "9" * 5000)

VALUE = re.compile(r'"[^"\n]*"|\d+(?:\.\d+)?|\b(?:true|false|null|True|False|None)\b|\{[^{}\n]*\}|\[[^\[\]\n]*\]')
OTHERS = (
    "",
    "0",
    "-1",
    "1.5",
    "1e999",
    "nan",
    "²",
    "9" * 400,
    "9" * 5000,
    "null",
    "None",
    "true",
    '"x"',
    "[]",
    "{}",
    "[0]",
)


def with_other_values(text: str) -> st.SearchStrategy[str]:
    """The text with up to four of its numbers, words, lists and objects replaced by others, of other kinds as well."""
    places = [match.span() for match in VALUE.finditer(text)] or [(0, 0)]
    changes = st.dictionaries(st.sampled_from(places), st.sampled_from(OTHERS), min_size=1, max_size=4)
    return changes.map(lambda made: _changed(text, made))


def _changed(text: str, changes: Mapping[tuple[int, int], str]) -> str:
    for (start, end), other in sorted(changes.items(), reverse=True):
        text = text[:start] + other + text[end:]
    return text


class EngineContract:
    @pytest.fixture
    def engine(self) -> Engine:
        raise NotImplementedError

    @pytest.fixture
    def service(self) -> Service:
        """A service without speculation and without environment variables."""
        raise NotImplementedError

    @pytest.fixture
    def speculating(self) -> Service:
        """The same service with speculation among its own args."""
        raise NotImplementedError

    @pytest.fixture
    def candidates(self) -> tuple[Candidate, ...]:
        """Different candidates that work on the service."""
        raise NotImplementedError

    @pytest.fixture
    def log_line(self) -> str:
        """A line with which the engine's log begins every message, text left out; mixed into arbitrary logs."""
        raise NotImplementedError

    @pytest.fixture
    def recorded(self) -> Sequence[Evidence]:
        """What was observed of real servers."""
        raise NotImplementedError

    def test_knobs_are_listed_under_their_own_names(self, engine: Engine) -> None:
        assert engine.knobs
        for name, knob in engine.knobs.items():
            assert knob.name == name
            assert not name.startswith("-")

    def test_no_spelling_means_two_knobs(self, engine: Engine) -> None:
        spellings = [spelling for knob in engine.knobs.values() for spelling in (knob.name, *knob.aliases)]
        assert len(spellings) == len(set(spellings))

    def test_defaults_are_allowed_values(self, engine: Engine) -> None:
        for knob in engine.knobs.values():
            assert knob.default is None or _allows(knob), knob

    def test_the_baseline_of_a_plain_service_changes_nothing(self, engine: Engine, service: Service) -> None:
        baseline = engine.baseline(service)
        assert baseline.speculation.method is Method.NONE
        assert not baseline.knobs

    def test_the_baseline_recognises_the_services_own_speculation(self, engine: Engine, speculating: Service) -> None:
        baseline = engine.baseline(speculating)
        assert baseline.speculation.method is not Method.NONE
        assert baseline.speculation.depth > 0
        engine.launch(speculating, baseline)

    def test_speculation_of_the_service_leaves_no_trace_in_another_candidate(
        self, engine: Engine, service: Service, speculating: Service, candidates: tuple[Candidate, ...]
    ) -> None:
        for candidate in candidates:
            assert sorted(engine.launch(speculating, candidate).argv) == sorted(engine.launch(service, candidate).argv)

    def test_a_launch_is_the_services(
        self, engine: Engine, service: Service, candidates: tuple[Candidate, ...]
    ) -> None:
        service = replace(service, env={"SOME_VARIABLE": "some value"})
        for candidate in candidates:
            launch = engine.launch(service, candidate)
            assert launch.argv[0] == service.binary
            assert service.model in launch.argv
            assert str(service.port) in launch.argv
            assert launch.url == service.url
            assert launch.model_id == service.model_id
            assert launch.ready_timeout_s == service.ready_timeout_s
            assert launch.env["SOME_VARIABLE"] == "some value"
            assert all(path.startswith("/") for path in (launch.ready_path, *launch.probe_paths))

    def test_launches_depend_on_their_arguments_alone(
        self, engine: Engine, service: Service, candidates: tuple[Candidate, ...]
    ) -> None:
        launches = [engine.launch(service, candidate) for candidate in candidates]
        assert launches == [engine.launch(service, candidate) for candidate in candidates]
        assert len({launch.argv for launch in launches}) == len(candidates)

    def test_unknown_flags_are_refused_by_name(self, engine: Engine, service: Service) -> None:
        broken = replace(service, args={**service.args, "no-such-flag": 1})
        with pytest.raises(InputError, match="no-such-flag") as refused:
            engine.baseline(broken)
        assert refused.value.advice
        with pytest.raises(InputError, match="no-such-flag"):
            engine.launch(service, Candidate(knobs={"no-such-flag": 1}))

    def test_impossible_depths_are_refused(
        self, engine: Engine, service: Service, candidates: tuple[Candidate, ...]
    ) -> None:
        for candidate in candidates:
            if candidate.speculation.method is Method.NONE:
                impossible = replace(candidate.speculation, depth=1)
            else:
                impossible = replace(candidate.speculation, depth=0)
            with pytest.raises(InputError, match="depth"):
                engine.launch(service, replace(candidate, speculation=impossible))

    def test_nothing_is_read_from_nothing(self, engine: Engine) -> None:
        seen = engine.read(Evidence("", {}, ListenerOwner.UNKNOWN))
        assert seen == Seen(capacity=Capacity())

    @any_input
    @given(data=st.data())
    def test_reading_never_raises(self, engine: Engine, service: Service, log_line: str, data: st.DataObject) -> None:
        launch = engine.launch(service, Candidate())
        paths = (*launch.probe_paths, *((launch.counters_path,) if launch.counters_path else ()))
        body = st.one_of(st.text(), st.sampled_from(JUNK))
        page = st.builds(Page, status=st.sampled_from((0, 200, 200, 404, 503)), body=body)
        line = st.one_of(st.text(), st.text().map(lambda text: log_line + text))
        log = "\n".join(data.draw(st.lists(line, max_size=8)))
        pages = data.draw(st.dictionaries(st.sampled_from(paths), page))
        assert isinstance(engine.read(Evidence(log, pages, ListenerOwner.OURS)), Seen)

    @any_input
    @given(data=st.data())
    def test_what_real_servers_say_is_read_with_other_values_in_it(
        self, engine: Engine, recorded: Sequence[Evidence], data: st.DataObject
    ) -> None:
        known = data.draw(st.sampled_from(recorded))
        path = data.draw(st.sampled_from(("", *known.pages)))
        if path:
            body = data.draw(with_other_values(known.pages[path].body))
            changed = replace(known, pages={**known.pages, path: Page(200, body)})
        else:
            changed = replace(known, log=data.draw(with_other_values(known.log)))
        assert isinstance(engine.read(changed), Seen)

    def test_an_unknown_end_is_left_as_it_is(self, engine: Engine) -> None:
        failure = EngineFailure(FailureKind.EXITED, "exited with code 3 after 1.0 s", "Look at the log.", "lorem ipsum")
        assert engine.diagnose(failure) is failure

    @any_input
    @given(tail=st.text(), message=st.text(), kind=st.sampled_from(FailureKind))
    @example(tail="", message="", kind=FailureKind.UNKNOWN)
    def test_diagnosing_never_raises_and_keeps_the_log(
        self, engine: Engine, tail: str, message: str, kind: FailureKind
    ) -> None:
        assert engine.diagnose(EngineFailure(kind, message, "", tail)).log_tail == tail


def _allows(knob: Knob) -> bool:
    default = knob.default
    match knob.kind:
        case KnobKind.SWITCH:
            return isinstance(default, bool)
        case KnobKind.CHOICE:
            return default in knob.choices
        case KnobKind.INTEGER | KnobKind.NUMBER:
            assert isinstance(default, (int, float))
            return (knob.low is None or default >= knob.low) and (knob.high is None or default <= knob.high)
        case _:
            return isinstance(default, str)
