"""Runs vLLM's bench client over and over in one process of its environment: a line of JSON in, a line of JSON out.

In: {"url": ..., "model": ..., "tokenizer": ..., "requests": ..., "users": ..., "forced": true or false}.
Out, after the mark: {"ok": ..., "failed": ..., "tok_s": ...} or {"error": ...}.
"""

from __future__ import annotations

import argparse
import json
import sys

from vllm.benchmarks.serve import add_cli_args, main  # type: ignore[import-not-found]

MARK = "@@@ "


def run(wish: dict[str, object]) -> dict[str, object]:
    parser = argparse.ArgumentParser()
    add_cli_args(parser)
    words = [
        "--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", str(wish["url"]),
        "--model", str(wish["model"]), "--tokenizer", str(wish["tokenizer"]), "--dataset-name", "random",
        "--random-input-len", "64", "--random-output-len", "64", "--num-prompts", str(wish["requests"]),
        "--max-concurrency", str(wish["users"]), "--temperature", "0.7", "--disable-tqdm",
        "--ready-check-timeout-sec", "10",
    ]  # fmt: skip
    found = main(parser.parse_args([*words, *(["--ignore-eos"] if wish["forced"] else [])]))
    return {"ok": found["completed"], "failed": found["failed"], "tok_s": found["output_throughput"]}


print(MARK + "{}", flush=True)
for line in sys.stdin:
    try:
        answer = run(json.loads(line))
    except BaseException as error:  # whatever ends the client is what it says of the fault
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(MARK + json.dumps(answer), flush=True)
