"""Runs GuideLLM over and over in one process of its environment: a line of JSON in, a line of JSON out.

In: {"url": ..., "model": ..., "tokenizer": ..., "requests": ..., "users": ..., "forced": true or false}.
Out, after the mark: {"ok": ..., "failed": ..., "tok_s": ..., "warnings": [codes]} or {"error": ...}.
GuideLLM asks for forced lengths of synthetic prompts by itself.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

os.environ["GUIDELLM__MP_CONTEXT_TYPE"] = "forkserver"
os.environ["GUIDELLM__MAX_WORKER_PROCESSES"] = "1"
multiprocessing.set_forkserver_preload(["guidellm.scheduler", "guidellm.backends"])

from guidellm.__main__ import cli  # type: ignore[import-not-found]  # noqa: E402

MARK = "@@@ "


def run(wish: dict[str, object]) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        words = [
            "run", "--backend", f"kind=openai_http,target={wish['url']},model={wish['model']}",
            "--profile", f"kind=concurrent,streams={wish['users']}",
            "--constraint", f"kind=max_requests,count={wish['requests']}",
            "--tokenizer", f"kind=huggingface_auto,model={wish['tokenizer']}",
            "--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=64",
            "--output", f"kind=json,path={path}", "--disable-console",
        ]  # fmt: skip
        cli.main(words, standalone_mode=False)
        found = json.loads(path.read_text(encoding="utf-8"))["benchmarks"][0]
    totals, speed = found["metrics"]["request_totals"], found["metrics"]["output_tokens_per_second"]
    return {
        "ok": totals["successful"],
        "failed": totals["errored"] + totals["incomplete"],
        "tok_s": speed["successful"]["mean"],
        "warnings": [warning["code"] for warning in found["warnings"] or ()],
    }


if __name__ == "__main__":
    print(MARK + "{}", flush=True)
    for line in sys.stdin:
        try:
            answer = run(json.loads(line))
        except BaseException as error:  # whatever ends the client is what it says of the fault
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(MARK + json.dumps(answer), flush=True)
