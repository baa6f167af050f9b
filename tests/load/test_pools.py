"""Which client is taken, and that the load is carried without the compiled one as well."""

from __future__ import annotations

import ssl as tls
from pathlib import Path

import pytest

from spectune.domain.errors import InputError
from spectune.load import pools
from spectune.load.body import Server
from spectune.load.native import library as native
from spectune.load.native.pool import NativePool
from spectune.load.options import Options
from spectune.load.pools import pool_for
from spectune.load.wire import LoopPool

_HTTP, _HTTPS = Server("http://127.0.0.1:1", "m"), Server("https://127.0.0.1:1", "m")


def test_plain_http_is_read_by_the_compiled_client() -> None:
    assert isinstance(pool_for(_HTTP, 1, Options()), NativePool)


@pytest.mark.parametrize(
    ("server", "options"),
    [(_HTTPS, Options()), (_HTTPS, Options(ssl=tls.create_default_context())), (_HTTP, Options(compiled=False))],
)
def test_the_event_loop_reads_what_the_compiled_client_cannot(server: Server, options: Options) -> None:
    assert isinstance(pool_for(server, 1, options), LoopPool)


def test_the_event_loop_reads_where_nothing_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "library", lambda: None)
    assert isinstance(pool_for(_HTTP, 1, Options()), LoopPool)


@pytest.mark.parametrize("content", [None, b"", b"no library"])
def test_a_library_that_cannot_be_loaded_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "_native.so").write_bytes(content)
    monkeypatch.setattr(native, "_LIBRARY", tmp_path / "_native.so")
    assert native.library.__wrapped__() is None


def test_a_library_of_another_version_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_VERSION", -1)
    assert native.library.__wrapped__() is None


@pytest.mark.parametrize("url", ["ftp://host", "host:80", "http://user:secret@host"])
def test_a_wrong_url_is_told_without_its_secrets(url: str) -> None:
    with pytest.raises(InputError) as told:
        pool_for(Server(url, "m"), 1, Options())
    assert "secret" not in str(told.value)
