"""Pages: fetching what a local server tells about itself, within bounds of size and time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import httpx

from spectune.domain.deployment import Page
from spectune.domain.ports import Clock

BODY_LIMIT = 2 << 20
TIMEOUT_S = 5.0
_ROUND_S = 10.0


class Pages:
    """Pages of one server. Connections are not kept: an idle one would occupy a worker of the server."""

    def __init__(self, url: str, clock: Clock, headers: Mapping[str, str] | None = None) -> None:
        self._url = url.rstrip("/")
        self._clock = clock
        # Proxies of the environment are not meant for a server on this machine.
        self._client = httpx.Client(
            headers=dict(headers or {}),
            trust_env=False,
            verify=False,
            limits=httpx.Limits(max_keepalive_connections=0),
            follow_redirects=False,
        )

    def close(self) -> None:
        """Gives the client back; a second time does nothing."""
        self._client.close()

    def get(self, path: str, timeout_s: float = TIMEOUT_S) -> Page:
        """One page, its body cut at 2 MB; status 0 when no whole answer came within `timeout_s` seconds."""
        end = self._clock.monotonic() + timeout_s
        body = bytearray()
        try:
            with self._client.stream("GET", self._url + path, timeout=timeout_s) as response:
                for part in response.iter_bytes():
                    body += part
                    if len(body) >= BODY_LIMIT:
                        break
                    if self._clock.monotonic() > end:
                        return Page(0, "")
                return Page(response.status_code, bytes(body[:BODY_LIMIT]).decode(errors="replace"))
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError):
            return Page(0, "")

    def get_all(self, paths: Iterable[str]) -> Mapping[str, Page]:
        """Several pages; a server that hangs costs 10 seconds, not 5 for each page."""
        end = self._clock.monotonic() + _ROUND_S
        pages: dict[str, Page] = {}
        for path in paths:
            left = end - self._clock.monotonic()
            pages[path] = self.get(path, min(TIMEOUT_S, left)) if left > 0 else Page(0, "")
        return pages
