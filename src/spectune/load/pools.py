"""Which client carries the load to a server: the compiled one, or the one on the event loop."""

from __future__ import annotations

from spectune.domain.errors import InputError
from spectune.load.body import Server
from spectune.load.exchange import Pool, split_url
from spectune.load.native.library import library
from spectune.load.native.pool import NativePool
from spectune.load.options import Options
from spectune.load.wire import LoopPool


def pool_for(server: Server, size: int, options: Options) -> Pool:
    """Connections to a server: compiled where that was possible, but for TLS.

    Raises:
        InputError: its URL is none.
    """
    try:
        if options.ssl is None and options.compiled and library() and split_url(server.url).scheme == "http":
            return NativePool(server.url, size, options.timeouts, reuse=server.keep_alive)
        return LoopPool(server.url, size, options.timeouts, options.ssl, reuse=server.keep_alive)
    except ValueError as error:
        # Without the URL, which may carry a password.
        raise InputError(f"cannot send requests: {error}", "A URL looks like http://host:8000") from error
