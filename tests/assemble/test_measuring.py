"""Where the load comes from, as far as it can be told without another host."""

from __future__ import annotations

import socket

import pytest

from spectune.assemble import measuring
from spectune.assemble.clock import SystemClock
from spectune.assemble.round_trip import connect_from_s, connect_s
from spectune.domain.errors import InputError
from spectune.domain.spec import ServiceSpec
from spectune.hosts.local import Local
from spectune.load.running import load


def test_a_service_of_this_machine_has_no_other_host() -> None:
    with pytest.raises(InputError, match="the service runs on this machine"):
        measuring.for_service(ServiceSpec(measure_from="host"), None)


def test_here_is_the_usual_load_generator() -> None:
    origin = measuring.for_service(ServiceSpec(), None)
    assert origin.load is load
    assert (origin.words, origin.way_s(), origin.url) == ("", 0.0, None)
    assert origin.machine.cores >= 1


def test_a_load_test_needs_the_name_of_the_host() -> None:
    with pytest.raises(InputError, match="--remote"), measuring.for_url("http://x:1", "host", "", None):
        pass


def test_connecting_is_timed_from_here_and_from_a_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        here, there = connect_s(url), connect_from_s(Local(SystemClock()), "python3", url)
    assert here is not None
    assert there is not None
    assert 0 < here < 5
    assert 0 < there < 5
    assert connect_s(url) is None
    assert connect_from_s(Local(SystemClock()), "python3", url) is None
    assert connect_from_s(Local(SystemClock()), "no-such-python", url) is None
