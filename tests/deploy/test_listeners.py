from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
import sys

import pytest

from spectune.deploy.listeners import _decode, _meets, check_free, free_port, holder, is_free, owner, place_of
from spectune.domain.deployment import ListenerOwner
from spectune.domain.errors import HostError, PortTaken


def listen(address: str, port: int = 0) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((address, port))
    listener.listen()
    return listener


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F", "127.0.0.1"),
        ("00000000", "0.0.0.0"),
        ("00000000000000000000000001000000", "::1"),
        ("0000000000000000FFFF00000100007F", "127.0.0.1"),
        ("00000000000000000000000000000000", "::"),
    ],
)
@pytest.mark.skipif("sys.byteorder != 'little'")
def test_addresses_of_proc(text: str, address: str) -> None:
    assert str(_decode(text)) == address


@pytest.mark.parametrize(
    ("listener", "url", "meets"),
    [
        ("127.0.0.1", "http://127.0.0.1:1", True),
        ("127.0.0.2", "http://127.0.0.1:1", False),
        ("0.0.0.0", "http://127.0.0.1:1", True),
        ("::", "http://127.0.0.1:1", True),
        ("::1", "http://127.0.0.1:1", False),
        ("127.0.0.2", "http://0.0.0.0:1", True),
        ("0.0.0.0", "http://[::1]:1", False),
        ("::", "http://[::1]:1", True),
        ("127.0.0.1", "http://[::]:1", True),
    ],
)
def test_which_listeners_cover_an_address(listener: str, url: str, meets: bool) -> None:
    assert _meets(ipaddress.ip_address(listener), place_of(url).addresses) is meets


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "127.0.0.3"])
def test_whose_listener_it_is(address: str) -> None:
    with listen(address) as listener:
        place = place_of(f"http://{address}:{listener.getsockname()[1]}")
        assert owner(place, lambda: [os.getpid()]) is ListenerOwner.OURS
        assert owner(place, list) is ListenerOwner.FOREIGN
        assert f"(pid {os.getpid()})" in str(holder(place))
        with pytest.raises(PortTaken, match=f"pid {os.getpid()}"):
            check_free(place)
        assert not is_free(place)
    assert owner(place, lambda: [os.getpid()]) is ListenerOwner.NONE
    assert holder(place) is None
    check_free(place)
    assert is_free(place)


LISTENS_TOO = """
import socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
print("listens", flush=True)
sys.stdin.read()
"""


def test_one_foreign_listener_among_ours_is_foreign() -> None:
    with listen("127.0.0.1") as ours:
        port = ours.getsockname()[1]
        place = place_of(f"http://127.0.0.1:{port}")
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LISTENS_TOO, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"listens\n"
            assert owner(place, lambda: [os.getpid()]) is ListenerOwner.FOREIGN
            assert owner(place, lambda: [os.getpid(), other.pid]) is ListenerOwner.OURS
            other.communicate()


def test_a_port_that_is_bound_but_not_listening_is_taken() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        place = place_of(f"http://127.0.0.1:{bound.getsockname()[1]}")
        with pytest.raises(PortTaken, match="an unknown program"):
            check_free(place)


def test_a_connection_that_winds_down_is_no_obstacle() -> None:
    with listen("127.0.0.1") as listener:
        place = place_of(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with socket.create_connection(("127.0.0.1", place.port)) as client:
            served, _ = listener.accept()
            served.close()
            client.recv(1)
    check_free(place)


def test_addresses_of_another_machine() -> None:
    with pytest.raises(HostError, match=r"nothing can listen on 192\.0\.2\.1:8080"):
        check_free(place_of("http://192.0.2.1:8080"))
    with pytest.raises(HostError, match=r"nothing can listen on 192\.0\.2\.1"):
        free_port("192.0.2.1")
    with pytest.raises(HostError, match="not known here"):
        place_of("http://no-such-host.invalid:8080")


def test_free_ports_are_free() -> None:
    port = free_port("127.0.0.1")
    check_free(place_of(f"http://127.0.0.1:{port}"))


@pytest.mark.parametrize(("url", "text"), [("http://127.0.0.1", "127.0.0.1:80"), ("http://[::1]:8080/", "[::1]:8080")])
def test_places(url: str, text: str) -> None:
    assert str(place_of(url)) == text
