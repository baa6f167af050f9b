"""HTTP's framing in C, under the sanitizers of the compiler: the body is the same however an answer is cut, and bytes
that are no HTTP end as such."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httptools
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectune.load.native import library

_PLACES = ("head", "length", "until-close", "chunk-size", "chunk", "chunk-end", "trailers", "over", "broken")


@dataclass(frozen=True)
class Fed:
    place: str
    status: int
    keep_alive: bool
    has_length: bool
    taken: int
    body: bytes


Feed = Callable[[list[bytes]], Fed]


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feed]:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "no C compiler (cc, gcc or clang)"
    program = tmp_path_factory.mktemp("framing") / "driver"
    strict = ("-g", "-O1", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=address,undefined")
    here = Path(__file__).parent
    headers = Path(library.__file__).parent
    source = here / "framing_driver.c"
    subprocess.run([compiler, *strict, "-fno-sanitize-recover", f"-I{headers}", "-o", program, source], check=True)
    driver = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert driver.stdin
    assert driver.stdout
    to, told = driver.stdin, driver.stdout

    def run(pieces: list[bytes]) -> Fed:
        with suppress(BrokenPipeError):
            to.write(struct.pack("I", len(pieces)) + b"".join(struct.pack("I", len(p)) + p for p in pieces))
            to.flush()
        fields = told.read(24)
        assert len(fields) == 24, driver.stderr.read().decode() if driver.stderr else ""
        place, status, keep_alive, has_length, taken, size = struct.unpack("6i", fields)
        return Fed(_PLACES[place], status, bool(keep_alive), bool(has_length), taken, told.read(size))

    yield run
    to.close()
    assert driver.wait(10) == 0  # and nothing leaked
    told.close()
    assert driver.stderr
    driver.stderr.close()


def cut(data: bytes, at: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


def chunked(body: bytes, at: list[int], extension: bytes, trailer: bytes) -> bytes:
    coded = (b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in cut(body, at) if part)
    return b"".join(coded) + b"0\r\n" + trailer + b"\r\n"


patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
places = st.lists(st.integers(0, 5000), max_size=6)
bodies = st.one_of(st.binary(max_size=200), st.sampled_from([b"", b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"\n\n"]))


@patient
@given(
    body=bodies, coding=st.sampled_from(["length", "chunked", "close"]), at=places, chunks=places,
    first=st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"]),
    status=st.sampled_from([200, 201, 400, 429, 500]), version=st.sampled_from([b"1.1", b"1.0"]),
    connection=st.sampled_from([b"", b"Connection: close\r\n", b"connection: Keep-Alive\r\n", b"Connection: x,close\r\n"]),  # noqa: E501
    extension=st.sampled_from([b"", b";a=b", b" "]), trailer=st.sampled_from([b"", b"a: 5\r\n", b"a: b\r\nc:\r\n"]),
    end=st.sampled_from([b"\r\n", b"\n"]),
)  # fmt: skip
def test_the_body_is_the_same_however_it_is_cut(
    feed: Feed, body: bytes, coding: str, at: list[int], chunks: list[int], first: bytes, status: int, version: bytes,
    connection: bytes, extension: bytes, trailer: bytes, end: bytes,
) -> None:  # fmt: skip
    framed = {
        "length": (b"Content-Length: %d\r\n" % len(body), body),
        "chunked": (b"Transfer-Encoding: chunked\r\n", chunked(body, chunks, extension, trailer)),
        "close": (b"", body),
    }
    head, coded = framed[coding]
    lines = b"HTTP/%b %d Some Words\r\nserver: x\r\n" % (version, status) + connection + head + b"\r\n"
    fed = feed(cut(first + lines.replace(b"\r\n", end) + coded, at))
    closes = b"close" in connection if version == b"1.1" else b"Keep-Alive" not in connection
    assert fed.body == body
    assert fed.status == status
    assert fed.place == ("until-close" if coding == "close" else "over")
    assert fed.has_length == (coding != "close")
    assert fed.keep_alive == (coding != "close" and not closes)


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    ("answer", "place", "status", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", "over", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", "over", 304, b""),
        (OK + b"more", "over", 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok", "over", 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", "broken", 200, b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok", "broken", 200, b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nok", "broken", 200, b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "broken", 200, b""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "over", 200, b"x"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n", "broken", 200, b"x"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n", "broken", 200, b""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1g\r\n", "broken", 200, b""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\0\r\n", "broken", 200, b""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n", "broken", 200, b""),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "broken", 200, b""),
        (b"HTTP/1.1 200 OK\r\n folded: line\r\n\r\n", "broken", 200, b""),
        (b"HTTP/1.1 200 OK\r\nlong: " + b"x" * 70_000, "broken", 0, b""),
        (b"HTTP/2 200\r\n\r\n", "broken", 0, b""),
        (b"HTTP/1.1 99 Low\r\n\r\n", "broken", 0, b""),
        (b"HTTP/1.1 20x OK\r\n\r\n", "broken", 0, b""),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "broken", 101, b""),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "broken", 0, b""),
        (b"HTTP/1.1 200", "head", 0, b""),
        (b"", "head", 0, b""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("single", [False, True])
def test_answers_of_all_kinds(feed: Feed, answer: bytes, place: str, status: int, body: bytes, single: bool) -> None:
    fed = feed([answer[n : n + 1] for n in range(len(answer))] if single else [answer])
    assert (fed.place, fed.status, fed.body) == (place, status, body)


class Heard:
    """What httptools makes of an answer."""

    def __init__(self) -> None:
        self.body = b""
        self.complete = 0

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete += 1


SEEDS = [
    OK,
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunked(b"data: {}\n\ndata: [DONE]\n\n", [10], b"", b""),
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nwrong",
]


@settings(patient, max_examples=500)
@given(data=st.data(), seed=st.sampled_from(SEEDS), at=places)
def test_a_spoilt_answer_is_never_taken_for_another(feed: Feed, data: Any, seed: bytes, at: list[int]) -> None:
    spoilt = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(spoilt) - 1))
        spoilt[place] = data.draw(st.integers(0, 255) | st.sampled_from(b"\r\n0 :;f"))
    fed = feed(cut(bytes(spoilt), at))
    heard = Heard()
    parser = httptools.HttpResponseParser(heard)
    try:
        parser.feed_data(bytes(spoilt))
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return  # stricter than we are, or not; all that matters here is that nothing was read beyond its end
    if heard.complete == 1 and fed.place == "over":
        assert fed.body == heard.body
        assert fed.status == parser.get_status_code()
