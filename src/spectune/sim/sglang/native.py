"""/generate, the engine's own endpoint, with meta_info."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator

import orjson
from starlette.requests import Request

from spectune.sim.sglang import asked, streams
from spectune.sim.sglang.job import Job
from spectune.sim.sglang.server import Server


async def answer(body: asked.Body, server: Server, request: Request) -> object:
    """The whole answer, or those to a list of prompts.

    Raises:
        asked.BadRequest: the body cannot be served.
    """
    text = body.get("text", body.get("input_ids"))
    many = isinstance(text, list) and bool(text) and isinstance(text[0], str | list)
    prompts = text if many and isinstance(text, list) else [text]
    jobs = [server.scheduler.submit(one.wanted) for one in [asked.native(body, server, prompt) for prompt in prompts]]
    if isinstance(rid := body.get("rid"), str) and len(jobs) == 1:
        jobs[0].rid = rid
    if len(jobs) == 1:
        await streams.ended(jobs[0], request, server.scheduler.abort)
    else:
        await asyncio.gather(*(_over(job) for job in jobs))
    results = [result(job, server, len(job.pieces), 0) for job in jobs]
    return results if many else results[0]


async def _over(job: Job) -> None:
    while job.reason is None:
        await job.wake.wait()
        job.wake.clear()


async def events(job: Job, server: Server) -> AsyncIterator[bytes]:
    """The answer as server-sent events: cumulative, or in parts with --incremental-streaming-output."""
    parts = bool(server.args["incremental_streaming_output"])
    interval = server.args["stream_interval"]
    async for start, end in streams.growth(job, interval if isinstance(interval, int) else 1):
        yield b"data: " + orjson.dumps(result(job, server, end, start if parts else 0)) + b"\n\n"
    yield streams.DONE


def result(job: Job, server: Server, end: int, start: int) -> dict[str, object]:
    """Tokens start..end with everything the engine tells about the request so far."""
    last = end == len(job.pieces) and job.reason is not None
    ids = [
        zlib.crc32(piece.encode("utf-8", "replace")) % 150000 + 100 if piece else 2 for piece in job.pieces[start:end]
    ]
    return {"text": job.text(start, end), "output_ids": ids, "meta_info": meta_info(job, server, end, last)}


def meta_info(job: Job, server: Server, tokens: int, last: bool) -> dict[str, object]:
    """What the engine says of a request; figures of speculation come with the end only."""
    now, scheduler = time.time(), server.scheduler
    age = scheduler.now() - job.received
    info: dict[str, object] = {
        "id": job.rid,
        "finish_reason": job.finish_reason() if last else None,
        "prompt_tokens": len(job.wanted.tokens),
        "weight_version": server.args["weight_version"],
        "num_retractions": job.retracted,
        "reasoning_tokens": 0,
        "completion_tokens": tokens,
        "cached_tokens": job.cached,
        "cached_tokens_details": {"device": job.cached, "host": 0} if job.cached else None,
        "dp_rank": None,
    }
    if server.args["enable_metrics"]:
        info["queue_time"] = (job.scheduled - job.received) if job.scheduled is not None else 0.0
    if not last:
        return info
    info["e2e_latency"] = age
    if job.verified:
        info.update(
            spec_accept_rate=job.accepted / job.proposed if job.proposed else 0.0,
            spec_accept_length=tokens / job.verified,
            spec_num_correct_drafts=job.accepted,
            spec_num_proposed_drafts=job.proposed,
            spec_verify_ct=job.verified,
            spec_accepted_drafts=job.accepted,
            spec_proposed_drafts=job.proposed,
            spec_correct_drafts_histogram=job.histogram,
            spec_accept_histogram=job.histogram,
        )
    info["response_sent_to_client_ts"] = now
    if server.args["enable_metrics"]:
        decoding = scheduler.now() - job.first if job.first is not None else 0.0
        info.update(
            request_received_ts=now - age,
            request_finished_ts=now,
            decode_throughput=(tokens - 1) / decoding if decoding > 0 else 0.0,
        )
    return info
