"""The endpoints."""

from __future__ import annotations

import asyncio
import http
from collections.abc import Awaitable, Callable

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spectune.sim.sglang import asked, metrics_page, native, openai, readback, streams
from spectune.sim.sglang.server import Server

HEALTH_S = 1.0
"""What each health check takes at least on the real engine."""
HEALTH_TIMEOUT_S = 20.0
Handler = Callable[[Request], Awaitable[ASGIApp]]


def build(server: Server) -> ASGIApp:
    """The application of one server."""
    pages = _Endpoints(server)
    read = ("GET",)
    both = ("GET", "POST")
    routes: list[tuple[str, Handler, tuple[str, ...]]] = [
        ("/health", pages.health, read),
        ("/health_generate", pages.health, read),
        ("/v1/models", pages.page(lambda: readback.models(server)), read),
        ("/model_info", pages.page(lambda: readback.model_info(server)), read),
        ("/get_model_info", pages.page(lambda: readback.model_info(server), "/model_info"), read),
        ("/server_info", pages.page(lambda: readback.server_info(server)), read),
        ("/get_server_info", pages.page(lambda: readback.server_info(server), "/server_info"), read),
        ("/v1/loads", pages.page(lambda: readback.loads(server)), read),
        ("/flush_cache", pages.flush, both),
        ("/abort_request", pages.abort, ("POST",)),
        ("/generate", pages.generate, ("POST",)),
        ("/v1/chat/completions", pages.chat, ("POST",)),
        ("/v1/completions", pages.completion, ("POST",)),
    ]
    if server.args["enable_metrics"]:
        routes.append(("/metrics", pages.metrics, read))
    app = Starlette(routes=[Route(path, handler, methods=list(methods)) for path, handler, methods in routes])
    return _AccessLog(app, server)


class _Endpoints:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def health(self, request: Request) -> ASGIApp:
        server = self._server
        faults, scheduler = server.environment.faults, server.scheduler
        if not server.ready or server.draining:
            return Response(status_code=503)
        await asyncio.sleep(HEALTH_S * server.environment.lifecycle)
        if "hang-after-health" in faults or (scheduler.running and not scheduler.stuck):
            return Response()
        job = scheduler.submit(asked.internal(1))
        patience = max(0.5, HEALTH_TIMEOUT_S * server.environment.lifecycle)
        try:
            await asyncio.wait_for(job.wake.wait(), patience)
        except TimeoutError:
            scheduler.abort(job)
            server.log.line("Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.")
            return Response(status_code=503)
        return Response()

    def page(self, content: Callable[[], dict[str, object]], instead: str = "") -> Handler:
        """A JSON page; `instead` names the page that replaces it."""

        async def answer(request: Request) -> ASGIApp:
            if instead:
                self._server.log.line(
                    f"Endpoint '{request.url.path}' is deprecated and will be removed in a future version. "
                    f"Please use '{instead}' instead."
                )
            return _json(content())

        return answer

    async def metrics(self, request: Request) -> ASGIApp:
        return PlainTextResponse(metrics_page.render(self._server), media_type="text/plain; version=0.0.4")

    async def flush(self, request: Request) -> ASGIApp:
        if self._server.scheduler.flush():
            return PlainTextResponse("Cache flushed.\n")
        return PlainTextResponse("Cache not flushed: there are requests under way.\n", status_code=400)

    async def abort(self, request: Request) -> ASGIApp:
        body = await _body(request)
        for job in self._server.scheduler.jobs():
            if body.get("abort_all") or job.rid == body.get("rid"):
                self._server.scheduler.abort(job)
        return Response()

    async def generate(self, request: Request) -> ASGIApp:
        server = self._server
        try:
            body = await _body(request)
            if not body.get("stream"):
                return _json(await native.answer(body, server, request))
            job = server.scheduler.submit(asked.native(body, server, body.get("text", body.get("input_ids"))).wanted)
        except asked.BadRequest as error:
            return _json({"error": {"message": str(error)}}, 400)
        return streams.EventStream(native.events(job, server), lambda: server.scheduler.abort(job))

    async def chat(self, request: Request) -> ASGIApp:
        return await self._openai(request, asked.chat, chat=True)

    async def completion(self, request: Request) -> ASGIApp:
        return await self._openai(request, asked.completion, chat=False)

    async def _openai(
        self, request: Request, understand: Callable[[asked.Body, Server], asked.Asked], chat: bool
    ) -> ASGIApp:
        server = self._server
        try:
            wish = understand(await _body(request), server)
        except asked.BadRequest as error:
            message = {"object": "error", "message": str(error), "type": "BadRequest", "param": None, "code": 400}
            return _json(message, 400)
        job = server.scheduler.submit(wish.wanted)
        if wish.stream:
            return streams.EventStream(openai.events(job, wish, server, chat), lambda: server.scheduler.abort(job))
        await streams.ended(job, request, server.scheduler.abort)
        if job.reason == "abort":
            return _json({"object": "error", "message": "Abort in waiting or running queue", "code": 503}, 503)
        return _json(openai.whole(job, wish, server, chat))


class _AccessLog:
    """Counts and logs requests as the engine's HTTP server does, and asks for the API key where there is one."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app, self._server = app, server
        self._key = server.args["api_key"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        counters, endpoint = self._server.scheduler.counters, (scope["path"], scope["method"])
        counters.http_requests[endpoint] += 1
        counters.http_active[endpoint] += 1

        async def logged(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._log(scope, message["status"])
                counters.http_responses[*endpoint, message["status"]] += 1
            await send(message)

        try:
            app = self._app if self._allowed(scope) else _json({"error": "Unauthorized"}, 401)
            await app(scope, receive, logged)
        finally:
            counters.http_active[endpoint] -= 1

    def _allowed(self, scope: Scope) -> bool:
        if self._key is None or scope["path"].startswith(("/health", "/metrics")):
            return True
        return (b"authorization", f"Bearer {self._key}".encode()) in scope["headers"]

    def _log(self, scope: Scope, status: int) -> None:
        host, port = scope.get("client") or ("", 0)
        query = "?" + scope["query_string"].decode("latin-1") if scope["query_string"] else ""
        phrase = http.HTTPStatus(status).phrase
        self._server.log.line(
            f'INFO:     {host}:{port} - "{scope["method"]} {scope["path"]}{query} HTTP/1.1" {status} {phrase}'
        )


async def _body(request: Request) -> asked.Body:
    try:
        body = orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise asked.BadRequest(f"body: {error}") from error
    if not isinstance(body, dict):
        raise asked.BadRequest("body: a JSON object is expected")
    return body


def _json(content: object, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")
