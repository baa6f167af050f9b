from __future__ import annotations

import json
import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from spectune.sim.sglang.faults import KNOWN
from tests.sim.conftest import Sim, Simulate, chain

PROMPT = "Tell me about the harbour in winter"
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {}}}}}]


def answers_nothing(sim: Sim) -> bool:
    try:
        sim.chat(PROMPT, timeout=0.7)
    except httpx.TimeoutException:
        return True
    return False


def test_wrong_settings_show_in_the_read_back(launch: Simulate) -> None:
    info = launch(*chain(3), faults="wrong-settings").info()
    assert (info["speculative_num_steps"], info["speculative_num_draft_tokens"]) == (2, 3)


def test_silent_limit(launch: Simulate) -> None:
    sim = launch(*chain(1), "--max-running-requests", "64", profile="dense-8b-eagle3", faults="silent-limit-48")
    assert sim.info()["max_running_requests"] == 64
    assert sim.state()["effective_max_running_requests_per_dp"] == 48
    assert "reduced" not in sim.log
    assert "reset to" not in sim.log


def test_death_at_a_request(launch: Simulate) -> None:
    sim = launch(faults="die-at-request=2")
    assert sim.say(PROMPT, max_tokens=3)
    with pytest.raises(httpx.HTTPError):
        sim.chat(PROMPT)
    assert sim.wait() == -signal.SIGKILL
    assert "Scheduler hit an exception: Traceback" in sim.log


def test_hang_after_health(launch: Simulate) -> None:
    sim = launch(faults="hang-after-health")
    assert sim.healthy()
    assert answers_nothing(sim)
    assert sim.healthy()


def test_hang_at_a_request_turns_health_red(launch: Simulate) -> None:
    sim = launch(faults="hang-at-request=2")
    assert sim.say(PROMPT, max_tokens=3)
    assert answers_nothing(sim)
    assert sim.get("/health").status_code == 503
    assert "Health check failed." in sim.log


def test_garbage_only_in_company(launch: Simulate) -> None:
    sim = launch(speed="10", faults="garbage-when-concurrent")
    assert "\ufffd" not in sim.say(PROMPT)
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda n: sim.say(f"{PROMPT} {n}", max_tokens=200, ignore_eos=True), range(4)))
    assert all("\ufffd" in text for text in texts)


def test_garbage(launch: Simulate) -> None:
    assert launch(faults="garbage-answers").say(PROMPT, max_tokens=20).count("\ufffd") > 10


def test_loops(launch: Simulate) -> None:
    text = launch(speed="20", faults="loops").say(PROMPT, max_tokens=120)
    assert text.count(" ".join(text.split()[:5])) > 10


def test_truncated_answers(launch: Simulate) -> None:
    choice = launch(speed="20", faults="truncated-answers=4").chat(PROMPT, max_tokens=100).json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert len(choice["message"]["content"].split()) == 4


@pytest.mark.parametrize(("faults", "kinds"), [("", 6), ("temperature-ignored", 1)])
def test_temperature_ignored(launch: Simulate, faults: str, kinds: int) -> None:
    sim = launch(speed="20", faults=faults)
    assert len({sim.say(PROMPT, max_tokens=4, temperature=1.0, seed=seed) for seed in range(6)}) == kinds


def test_broken_tool_calls(launch: Simulate) -> None:
    answer = launch(speed="20", faults="broken-tool-calls").chat(PROMPT, tools=TOOLS, tool_choice="required").json()
    with pytest.raises(ValueError, match="line 1"):
        json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])


def holders(gpu_file: Path) -> list[int]:
    pids = [int(line.split()[0]) for line in gpu_file.read_text().splitlines()]
    return [pid for pid in pids if psutil.pid_exists(pid)]


def test_an_orphan_keeps_the_port(launch: Simulate) -> None:
    sim = launch(faults="orphan-child=3")
    sim.process.terminate()
    assert sim.wait() == -signal.SIGKILL
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", sim.port), reuse_port=False)

    def free() -> bool:
        try:
            socket.create_server(("127.0.0.1", sim.port)).close()
        except OSError:
            return False
        return True

    assert sim.until(free)


def test_an_orphan_keeps_memory(launch: Simulate) -> None:
    sim = launch(faults="orphan-gpu=60")
    orphan = next(pid for pid in holders(sim.gpu_file) if pid != sim.process.pid)
    sim.process.kill()
    sim.wait()
    assert holders(sim.gpu_file) == [orphan]
    assert psutil.Process(orphan).cmdline()[0] == "sglang::scheduler"


def test_drift_slows_down(launch: Simulate) -> None:
    sim = launch(faults="slow-drift=6000")

    def latency() -> float:
        return float(sim.generate(PROMPT, max_new_tokens=30, ignore_eos=True)["meta_info"]["e2e_latency"])

    first = latency()
    assert sim.until(lambda: latency() > 2 * first)


@pytest.mark.parametrize(("depth", "starts"), [(2, True), (3, False)])
def test_out_of_memory_above_a_depth(launch: Simulate, depth: int, starts: bool) -> None:
    sim = launch(*chain(depth), ready=starts, faults="oom-above-depth=2")
    if not starts:
        assert sim.wait() == -signal.SIGKILL
    assert ("CUDA out of memory" in sim.log) is not starts


def test_crash_at_start(launch: Simulate) -> None:
    sim = launch(ready=False, faults="crash-at-start")
    assert sim.wait() == -signal.SIGKILL
    assert "Received sigquit from a child process." in sim.log


def test_crash_later(launch: Simulate) -> None:
    sim = launch(ready=False, faults="crash-after=0.3")
    assert sim.wait() == -signal.SIGKILL
    assert "The server is fired up" in sim.log
    assert "SIGQUIT received." in sim.log


def test_sigterm_ignored(launch: Simulate) -> None:
    sim = launch(faults="restart-needed-sigkill")
    sim.process.terminate()
    time.sleep(0.3)
    assert sim.healthy()


def test_wrong_model(launch: Simulate) -> None:
    sim = launch(faults="wrong-model")
    served = [sim.get("/v1/models").json()["data"][0]["id"], sim.get("/model_info").json()["model_path"]]
    assert "/models/m" not in [*served, sim.info()["model_path"]]


@pytest.mark.parametrize(("fault", "most"), [("draft-not-loaded", 0.0), ("dead-head", 0.1)])
def test_dead_drafts(launch: Simulate, fault: str, most: float) -> None:
    sim = launch(*chain(3), speed="20", faults=fault)
    meta = sim.generate(PROMPT, max_new_tokens=200, ignore_eos=True)["meta_info"]
    assert meta["spec_num_correct_drafts"] / meta["spec_verify_ct"] <= most
    assert sim.info()["speculative_num_steps"] == 3


def test_adaptive_and_its_fallback(launch: Simulate) -> None:
    live = launch(*chain(3), "--speculative-adaptive", "--enable-metrics", speed="20")
    live.generate(PROMPT, max_new_tokens=400, ignore_eos=True)
    assert "AdaptiveSpeculativeParams initialized: steps=3, candidate_steps=[0, 1, 3, 7]" in live.log
    assert "Adaptive spec params updated: steps 3 -> 7" in live.log
    assert live.metric("spec_num_steps") == float(re.findall(r"steps \d -> (\d)", live.log)[-1])
    fallen = launch(*chain(3), "--speculative-adaptive", faults="adaptive-fallback")
    assert "Falling back to static speculative params." in fallen.log
    assert fallen.info()["speculative_adaptive"] is False


def test_graphs_truncated(launch: Simulate) -> None:
    sim = launch(*chain(2), "--decode-log-interval", "1", faults="graph-truncated=2", speed="5")
    assert sim.info()["cuda_graph_config"]["decode"]["max_bs"] == 2
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: sim.say(f"{PROMPT} {n}", max_tokens=60, ignore_eos=True), range(4)))
    assert "cuda graph: False, gen throughput" in sim.log


def test_noisy_neighbour(launch: Simulate) -> None:
    """It takes turns: one second of three."""
    sim = launch(faults="noisy-neighbour")
    times: list[float] = []

    def uneven() -> bool:
        times.append(sim.generate(PROMPT, max_new_tokens=8, ignore_eos=True)["meta_info"]["e2e_latency"])
        return max(times) > 1.3 * min(times)

    assert sim.until(uneven, 6.0)


@pytest.mark.parametrize("fault", ["slow-warmup=0.5", "never-ready"])
def test_late_readiness(launch: Simulate, fault: str) -> None:
    sim = launch(ready=False, faults=fault)
    assert sim.until(lambda: "Uvicorn running" in sim.log)
    assert sim.get("/health").status_code == 503
    assert sim.until(sim.healthy, 1.0) is (fault != "never-ready")


def test_topk_ignored(launch: Simulate) -> None:
    flags = ("--speculative-num-steps", "3", "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8")
    info = launch("--speculative-algorithm", "EAGLE", *flags, faults="topk-ignored").info()
    assert (info["speculative_eagle_topk"], info["speculative_num_draft_tokens"]) == (1, 4)


def test_every_fault_is_tested() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in KNOWN if text.count(name) == 0] == []
