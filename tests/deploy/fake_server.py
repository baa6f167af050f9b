"""A server that misbehaves on request. Standard library only, so that it starts fast."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--exit-code", type=int, help="end at once, without listening")
    parser.add_argument("--listen-after", type=float, default=0.0, help="seconds")
    parser.add_argument("--load-s", type=float, default=0.0, help="answer 503 for so many seconds")
    parser.add_argument("--chatter-s", type=float, default=0.0, help="print a line a tenth of a second for so long")
    parser.add_argument("--mute", action="store_true", help="accept connections and answer nothing")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--escape", action="store_true", help="a child in a session of its own takes over the socket")
    parser.add_argument("--spam", type=int, default=0, help="lines to print at the start")
    parser.add_argument("--die-after", type=int, default=-1, help="requests")
    parser.add_argument("--kill-self", action="store_true", help="die of SIGSEGV instead of listening")
    return parser.parse_args()


def answer(connection: socket.socket, loading: bool) -> None:
    path = connection.recv(65536).split(b" ")[1].decode()
    status, body = 200, b"ok"
    if loading:
        status, body = 503, b"loading"
    elif path == "/big":
        body = b"x" * (3 << 20)
    elif path == "/env":
        body = "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items())).encode()
    elif path == "/stdin":
        body = repr(sys.stdin.read()).encode()
    elif path == "/moved":
        status = 302
    elif path == "/slow":
        time.sleep(20)
    elif path == "/cut":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        return
    elif path != "/health":
        status, body = 404, b"no such page"
    head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\nLocation: /health\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)


def main() -> None:
    asked = options()
    started = time.monotonic()
    print("first line", flush=True)
    print("to stderr", file=sys.stderr, flush=True)
    for number in range(asked.spam):
        print(f"line {number} {'.' * 90}")
    sys.stdout.flush()
    if asked.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if asked.exit_code is not None:
        print("error: giving up", flush=True)
        raise SystemExit(asked.exit_code)
    if asked.kill_self:
        os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(asked.listen_after)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", asked.port))
        listener.listen()
        if asked.escape and os.fork():
            # The parent keeps running, but only the child has the socket.
            listener.close()
            while True:
                signal.pause()
        if asked.escape:
            os.setsid()
            print(f"escaped {os.getpid()}", flush=True)
        serve(asked, listener, started)


def serve(asked: argparse.Namespace, listener: socket.socket, started: float) -> None:
    listener.settimeout(0.1)
    served = 0
    while served != asked.die_after:
        if time.monotonic() - started < asked.chatter_s:
            print(f"loading {time.monotonic() - started:.1f}", flush=True)
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        if asked.mute:
            connection.detach()
            continue
        with connection:
            loading = time.monotonic() - started < asked.load_s
            answer(connection, loading)
            served += not loading
    raise SystemExit(3)


main()
