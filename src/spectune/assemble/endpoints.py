"""A server that somebody else started: what it is, what its pages say, how it is asked."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx

from spectune.assemble.engines import KITS
from spectune.domain.deployment import Counters, Evidence, ListenerOwner, Page, Seen
from spectune.domain.errors import HostError, InputError
from spectune.domain.ports import Engine, Target
from spectune.domain.redaction import redact_text
from spectune.load.options import Options

_LAST_PORT = 65_535
_PAGE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running server.

    Attributes:
        url: base URL, without /v1.
        model_id: name to send; from /v1/models unless given.
        engine: adapter that reads its pages; None where none knows them.
        paths: pages that it tells of itself.
        headers: for every request.
        keep_alive: see Launch.
        insecure: do not check the certificate of https.
    """

    url: str
    model_id: str
    engine: Engine | None
    paths: tuple[str, ...]
    headers: Mapping[str, str]
    keep_alive: bool
    insecure: bool = False

    def evidence(self) -> Evidence:
        return _evidence(_fetch(self.url, self.paths, self.headers, self.insecure))

    def seen(self, paths: Sequence[str] = ()) -> Seen:
        pages = _fetch(self.url, paths or self.paths, self.headers, self.insecure)
        return self.engine.read(_evidence(pages)) if self.engine else Seen()

    def target(self) -> Target:
        def counters() -> Counters | None:
            return self.seen(("/metrics",)).counters

        return Target(self.url, self.model_id, counters, self.headers, self.keep_alive)

    def options(self) -> Options:
        """How the load generator asks it."""
        if not self.insecure:
            return Options()
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        return Options(ssl=tls)


def look(
    url: str,
    model: str | None,
    api_key: str | None,
    headers: Mapping[str, str] | None = None,
    insecure: bool = False,
) -> Endpoint:
    """Finds out what serves at a URL.

    Args:
        headers: for every request, besides the API key's.
        insecure: do not check the certificate of https.

    Raises:
        InputError: the URL is none, or several models are served and none was named.
        HostError: nothing answers.
    """
    base = url.rstrip("/").removesuffix("/v1")
    sent = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    sent |= headers or {}
    paths = tuple(dict.fromkeys(path for kit in KITS.values() for path in kit.pages))
    failures: list[str] = []
    pages = _fetch(base, paths, sent, insecure, failures)
    shown = redact_text(base)
    if all(page.status == 0 for page in pages.values()):
        reason = next(filter(None, failures), "")
        advice = "Is the server running, and the port right?"
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            advice = "--insecure takes a certificate that cannot be checked."
        raise HostError(f"nothing answers at {shown}{f': {reason}' if reason else ''}", advice)
    kit, engine = next(((kit, found) for kit in KITS.values() if (found := kit.recognises(pages))), (None, None))
    told = engine.read(_evidence(pages)).model_id if engine else None
    return Endpoint(
        url=base,
        model_id=model or told or _only_model(shown, pages["/v1/models"]),
        engine=engine,
        paths=kit.pages if kit else ("/v1/models",),
        headers=sent,
        keep_alive=kit.keep_alive if kit else True,
        insecure=insecure,
    )


def _evidence(pages: Mapping[str, Page]) -> Evidence:
    return Evidence("", pages, ListenerOwner.UNKNOWN)


def _fetch(
    base: str, paths: Sequence[str], headers: Mapping[str, str], insecure: bool, failures: list[str] | None = None
) -> dict[str, Page]:
    """The pages; one that cannot be fetched has status 0, and why is added to the failures."""
    pages = {}
    # For http they would be read in vain, 0.1 s each time.
    authorities = base.lower().startswith("https:") and not insecure
    try:
        if (httpx.URL(base).port or 0) > _LAST_PORT:
            raise httpx.InvalidURL("the port is too large")
        with httpx.Client(
            base_url=base, headers=dict(headers), timeout=_PAGE_TIMEOUT_S, trust_env=False, verify=authorities
        ) as client:
            for path in paths:
                try:
                    answer = client.get(path)
                    pages[path] = Page(answer.status_code, answer.text)
                except httpx.UnsupportedProtocol:
                    raise
                except httpx.HTTPError as error:
                    pages[path] = Page(0, "")
                    if failures is not None:
                        failures.append(str(error))
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise InputError(f"not the URL of a server: {redact_text(base)}", "It looks like http://host:8000") from error
    return pages


def _only_model(base: str, page: Page) -> str:
    try:
        models = [entry["id"] for entry in httpx.Response(page.status, text=page.body).json()["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{base}/v1/models does not list models (HTTP {page.status})", "Name one with --model."
        ) from error
    if len(models) != 1:
        raise InputError(f"{base} serves {len(models)} models", f"Name one with --model: {', '.join(map(str, models))}")
    return str(models[0])
