from __future__ import annotations

import asyncio
import itertools
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from tests.sim.client import closed_loop, stream
from tests.sim.conftest import CLIENT, Sim, Simulate, chain

PROMPT = "Tell me about the harbour in winter"


def events(sim: Sim, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    with CLIENT.stream("POST", f"http://127.0.0.1:{sim.port}{path}", json={**body, "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def chat_events(sim: Sim, text: str, **more: Any) -> list[dict[str, Any]]:
    body = {
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "stream_options": {"include_usage": True},
    }
    return events(sim, "/v1/chat/completions", {**body, **more})


def test_it_starts_as_a_module() -> None:
    argv = [sys.executable, "-m", "spectune.sim.sglang", "--model-path", "m", "--port", "60000"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "SGLANG_GRPC_PORT (70000)" in ended.stderr


def test_the_start_is_quick_and_logged_in_order(launch: Simulate) -> None:
    began = time.monotonic()
    sim = launch(*chain(3), "--max-running-requests", "64")
    assert time.monotonic() - began < 15.0
    expected = [
        r"server_args=ServerArgs\(model_path='/models/m', .*speculative_num_steps=3, .*\)$",
        r"Load weight end\. elapsed=.* type=Qwen3_5MoeForConditionalGeneration, avail mem=",
        r"Load weight end\. elapsed=.* type=Qwen3_5ForCausalLMMTP, avail mem=",
        r"max_running_requests was reduced from the requested 64 to 17 \(per dp worker\)",
        r"KV Cache is allocated\. dtype: torch.bfloat16, #tokens: 321952, K size",
        r"Capture target verify CUDA graph begin\. backend=full, num_tokens_per_bs=4, bs=\[1, 2, 3,",
        r"max_total_num_tokens=321952, .*max_running_requests=17, context_len=262144, available_gpu_mem=",
        r"INFO:     Started server process \[\d+\]",
        r"INFO:     Uvicorn running on http://127\.0\.0\.1:",
        r"Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, full token usage: ",
        r"The server is fired up and ready to roll!",
        r'INFO:     127\.0\.0\.1:\d+ - "GET /health HTTP/1\.1" 200 OK',
    ]
    place, log = 0, sim.log
    for pattern in expected:
        found = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] " + pattern, re.MULTILINE).search(log, place)
        assert found, f"{pattern} not after {log[:place][-200:]!r}"
        place = found.end()


def test_read_back(plain: Sim) -> None:
    info, state = plain.info(), plain.state()
    assert (info["speculative_algorithm"], info["speculative_num_steps"]) == ("EAGLE", 2)
    assert (info["speculative_eagle_topk"], info["speculative_num_draft_tokens"]) == (1, 3)
    assert info["max_running_requests"] == 48
    assert state["effective_max_running_requests_per_dp"] == 21
    assert info["max_total_num_tokens"] == 377_207
    assert info["version"] == "0.5.15+sim"
    assert info["simulated"]["profile"] == "hand-run"
    assert info["simulated"]["depth_is_published"] is True
    assert plain.get("/get_server_info").json()["status"] == "ready"
    load = plain.get("/v1/loads").json()["loads"][0]
    assert load["max_running_requests"] == 21
    assert plain.get("/v1/models").json()["data"][0]["id"] == "/models/m"
    assert plain.get("/model_info").json()["model_path"] == "/models/m"
    assert plain.metric("simulated") == 1.0


def test_a_stream_tells_several_tokens_a_chunk_and_usage(plain: Sim) -> None:
    seen = chat_events(plain, PROMPT, max_tokens=60, ignore_eos=True)
    first, *texts, finish, usage = seen
    assert first["choices"][0]["delta"] == {"reasoning_content": None, "role": "assistant", "content": ""}
    assert finish["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 60
    assert 20 <= len(texts) < 40
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in texts)
    assert text == plain.say(PROMPT, max_tokens=60, ignore_eos=True)


def test_answers_do_not_depend_on_depth_or_batch(plain: Sim, launch: Simulate) -> None:
    other = launch(speed="20")
    prompts = [f"{PROMPT} {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(plain.say, prompts))
    assert together == [other.say(prompt) for prompt in prompts]
    assert len(set(together)) == 8


def test_counters_add_up_with_what_was_streamed(plain: Sim) -> None:
    names = ("generation_tokens_total", "prompt_tokens_total", "num_requests_total", "spec_verify_calls_total")
    before = {name: plain.metric(name) for name in names}
    answers = [plain.generate(f"{PROMPT} {number}", max_new_tokens=30 + number) for number in range(5)]
    meta = [answer["meta_info"] for answer in answers]
    assert plain.metric("num_requests_total") - before["num_requests_total"] == 5
    for name, key in (
        ("generation_tokens_total", "completion_tokens"),
        ("prompt_tokens_total", "prompt_tokens"),
        ("spec_verify_calls_total", "spec_verify_ct"),
    ):
        assert plain.metric(name) - before[name] == sum(one[key] for one in meta)
    for one in meta:
        assert one["completion_tokens"] == 1 + one["spec_verify_ct"] + one["spec_num_correct_drafts"]
        histogram = one["spec_correct_drafts_histogram"]
        assert sum(histogram) == one["spec_verify_ct"]
        assert sum(k * count for k, count in enumerate(histogram)) == one["spec_num_correct_drafts"]
        assert one["spec_num_proposed_drafts"] == 2 * one["spec_verify_ct"]
    assert plain.state()["avg_spec_accept_length"] > 1.5
    assert re.search(
        r"Decode batch, #running-req: \d, #full token: \d+, .*accept len: \d\.\d\d, accept rate: ", plain.log
    )


def test_native_stream_is_cumulative(plain: Sim) -> None:
    seen = events(plain, "/generate", {"text": PROMPT, "sampling_params": {"max_new_tokens": 20, "temperature": 0}})
    counts = [one["meta_info"]["completion_tokens"] for one in seen]
    assert counts == sorted(set(counts))
    assert counts[-1] == len(seen[-1]["output_ids"]) == 20
    assert all(later["text"].startswith(one["text"]) for one, later in itertools.pairwise(seen))
    assert "spec_verify_ct" in seen[-1]["meta_info"]
    assert "spec_verify_ct" not in seen[0]["meta_info"]


def test_completions_and_stop_strings(plain: Sim) -> None:
    whole = plain.post("/v1/completions", {"prompt": PROMPT, "temperature": 0, "max_tokens": 40}).json()
    text = whole["choices"][0]["text"]
    word = text.split()[7]
    body = {"prompt": PROMPT, "temperature": 0, "max_tokens": 40, "stop": [word]}
    stopped = "".join(one["choices"][0]["text"] for one in events(plain, "/v1/completions", body))
    assert stopped == text[: text.index(word)]


def test_prefix_cache_is_reported_and_flushed(plain: Sim) -> None:
    prompt = f"cached {time.time()} " + "word " * 100
    cached = [plain.chat(prompt).json()["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(2)]
    assert cached[0] == 0
    assert cached[1] > 90
    assert plain.metric("cached_tokens_total") >= cached[1]
    assert plain.get("/flush_cache").status_code == 200
    assert plain.chat(prompt).json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {}}}}}]


def test_json_and_tool_calls(plain: Sim) -> None:
    assert isinstance(json.loads(plain.say("Give me JSON of a town")), dict)
    choice = plain.chat("look at it", tools=TOOLS, tool_choice="required").json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    function = choice["message"]["tool_calls"][0]["function"]
    assert function["name"] == "look"
    assert set(json.loads(function["arguments"])) == {"at"}
    parts = [
        call["function"]
        for chunk in chat_events(plain, "look at it", tools=TOOLS, tool_choice="required")[:-1]
        for call in chunk["choices"][0]["delta"].get("tool_calls", ())
    ]
    assert parts[0]["name"] == "look"
    assert "".join(part["arguments"] for part in parts) == function["arguments"]
    assert plain.say("look at it", tools=TOOLS).startswith("<tool_call>")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {}),
        ("/v1/chat/completions", {"messages": []}),
        ("/v1/chat/completions", {"messages": ["x"]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "temperature": -1}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x " * 300_000}]}),
        ("/v1/completions", {"prompt": 3}),
        ("/generate", {}),
    ],
)
def test_bad_requests_get_400(plain: Sim, path: str, body: dict[str, Any]) -> None:
    answer = plain.post(path, body)
    assert answer.status_code == 400
    assert "message" in answer.text


def test_a_client_that_leaves_frees_its_place(plain: Sim) -> None:
    body = {
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": 100_000,
        "ignore_eos": True,
        "stream": True,
    }
    with CLIENT.stream("POST", f"http://127.0.0.1:{plain.port}/v1/chat/completions", json=body) as response:
        chunks = response.iter_bytes()
        assert next(chunks)
        assert plain.get("/v1/loads").json()["loads"][0]["num_running_reqs"] == 1
        assert plain.get("/flush_cache").status_code == 400
    running: Callable[[], int] = lambda: plain.get("/v1/loads").json()["loads"][0]["num_running_reqs"]  # noqa: E731
    assert plain.until(lambda: running() == 0, 3.0)
    assert plain.metric("num_aborted_requests_total") >= 1


def test_more_users_than_places_wait(plain: Sim) -> None:
    with ThreadPoolExecutor(30) as pool:
        sent = [pool.submit(plain.chat, f"{PROMPT} {n}", max_tokens=2000, ignore_eos=True) for n in range(30)]
        assert plain.until(lambda: plain.get("/v1/loads").json()["loads"][0]["num_waiting_reqs"] == 9, 5.0)
        assert plain.get("/v1/loads").json()["loads"][0]["num_running_reqs"] == 21
        plain.post("/abort_request", {"abort_all": True})
        assert {one.result().status_code for one in sent} == {503}


def test_the_key_is_asked_for(launch: Simulate) -> None:
    sim = launch("--api-key", "secret")
    assert sim.get("/v1/models").status_code == 401
    url = f"http://127.0.0.1:{sim.port}/v1/models"
    assert CLIENT.get(url, headers={"Authorization": "Bearer secret"}).status_code == 200
    assert sim.get("/metrics").status_code == 404


def test_sigterm_drains_and_ends_as_the_engine_does(launch: Simulate) -> None:
    sim = launch()
    assert sim.gpu_file.read_text().split()[0] == str(sim.process.pid)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(sim.chat, PROMPT, max_tokens=100, ignore_eos=True)
        assert sim.until(lambda: sim.get("/v1/loads").json()["loads"][0]["num_running_reqs"] == 1)
        sim.process.send_signal(signal.SIGTERM)
        assert sim.until(lambda: sim.get("/health").status_code == 503, 1.0)
        assert answer.result().json()["usage"]["completion_tokens"] == 100
    assert sim.wait() == -signal.SIGKILL
    assert "Draining requests and shutting down..." in sim.log
    assert "Gracefully exiting... Remaining number of requests 1" in sim.log
    assert sim.gpu_file.read_text() == ""


def test_sigterm_while_loading(launch: Simulate) -> None:
    sim = launch(ready=False, load_seconds="30")
    assert sim.until(lambda: "Load weight begin" in sim.log)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", sim.port))
    sim.process.terminate()
    assert sim.wait() == -signal.SIGTERM


def test_a_taken_port(launch: Simulate) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        sim = launch(port=holder.getsockname()[1], ready=False)
        assert sim.wait() == 1
    assert "error while attempting to bind on address ('127.0.0.1'," in sim.log
    assert "address already in use" in sim.log


@pytest.mark.parametrize(
    ("flags", "settings", "code", "text"),
    [
        (("--no-such-flag",), {}, 2, "unrecognized arguments: --no-such-flag"),
        (("--speculative-algorithm", "MEDUSA"), {}, 1, "ValueError: Unknown speculative algorithm name: MEDUSA"),
        ((), {"profile": "nope"}, 2, "no simulator profile 'nope'"),
        (("--mem-fraction-static", "0.3"), {}, -9, "RuntimeError: Not enough memory"),
    ],
)
def test_starts_that_fail(
    launch: Simulate, flags: tuple[str, ...], settings: dict[str, str], code: int, text: str
) -> None:
    sim = launch(*flags, ready=False, **settings)
    assert sim.wait() == code
    assert text in sim.log


def test_published_speeds_are_seen_from_outside(launch: Simulate) -> None:
    """With the margin of a busy machine; test_scheduler.py is exact."""
    sim = launch(*chain(2), "--max-running-requests", "64")
    alone = asyncio.run(stream(sim.port, _body(256)))
    assert alone.speed == pytest.approx(186, rel=0.1)
    crowd = asyncio.run(closed_loop(sim.port, 40, 2.0, 0.6, 64))
    assert 0.75 * 1844 < crowd.aggregate < 1.2 * 1844


def _body(tokens: int) -> dict[str, object]:
    message = {"role": "user", "content": PROMPT}
    return {"messages": [message], "temperature": 0, "ignore_eos": True, "max_tokens": tokens}


def test_nothing_is_left_behind(launch: Simulate) -> None:
    sim = launch()
    assert not psutil.Process(sim.process.pid).children(recursive=True)
    sim.process.kill()
    assert sim.wait() == -signal.SIGKILL
    with socket.create_server(("127.0.0.1", sim.port)):
        pass
