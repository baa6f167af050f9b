"""A chat server with bad manners, for faults of a measurement that no engine makes on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


@contextmanager
def stub(manners: str) -> Iterator[str]:
    """Serves chat completions and yields the base URL.

    Args:
        manners: "no-usage" sends chunks of several tokens and no usage; "same-answers" says one text whatever is asked;
            "refuses" answers every fourth request with 500; "cuts-streams" ends streams before they are done.
    """
    numbers = count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            # The client leaves in the middle when its time is over.
            with suppress(ConnectionError):
                self._answer()

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            number = next(numbers)
            if manners == "refuses" and number % 4 == 3:
                self._send(500, b'{"error": {"message": "out of luck"}}', "application/json")
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            for step in range(10):
                word = WORDS[step] if manners == "same-answers" else f"{WORDS[(number + step) % 12]}{number}"
                self._event({"choices": [{"index": 0, "delta": {"content": f" {word}"}}]})
                time.sleep(0.005)
                if manners == "cuts-streams" and step == 4 and number % 4 == 3:
                    return
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            if manners != "no-usage":
                usage = {"prompt_tokens": 20, "completion_tokens": 20, "total_tokens": 40}
                self._event({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def _event(self, body: object) -> None:
            self.wfile.write(b"data: " + json.dumps(body).encode() + b"\n\n")
            self.wfile.flush()

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
