"""Pages: fetching what a local server tells about itself, within bounds of size and time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import httpx

from spectune.domain.deployment import Page
from spectune.domain.ports import Clock

BODY_LIMIT = 2 << 20
TIMEOUT_S = 5.0
_ROUND_S = 10.0
_LATE_S = 30.0


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
        """Several pages; a server that hangs costs 10 seconds, not 5 for each page.

        A page that is late while others come is asked for once more and given half a minute: at the first question
        vLLM's /server_info describes the whole machine, which takes seconds, and later it remembers. It is not asked
        more often, since vLLM would begin anew each time.
        """
        pages, late = self._round(paths, _ROUND_S, TIMEOUT_S)
        if len(late) < len(pages):
            pages |= self._round(late, _LATE_S, _LATE_S)[0]
        return pages

    def _round(self, paths: Iterable[str], seconds: float, each_s: float) -> tuple[dict[str, Page], list[str]]:
        """Every page once, and those that took all their time and did not come."""
        end = self._clock.monotonic() + seconds
        pages: dict[str, Page] = {}
        late: list[str] = []
        for path in paths:
            asked = self._clock.monotonic()
            limit = min(each_s, end - asked)
            pages[path] = self.get(path, limit) if limit > 0 else Page(0, "")
            if not pages[path].status and self._clock.monotonic() - asked >= limit:
                late.append(path)
        return pages, late
