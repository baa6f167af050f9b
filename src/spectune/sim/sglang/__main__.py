"""`python -m spectune.sim.sglang`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import uvicorn
import uvloop

from spectune.domain.errors import InputError
from spectune.sim.model import Speeds
from spectune.sim.sglang import app, asked, capacity, environment, flags, processes, resolve, startup
from spectune.sim.sglang.capacity import GIB, Fit
from spectune.sim.sglang.depths import Depths
from spectune.sim.sglang.environment import Environment
from spectune.sim.sglang.log import Log
from spectune.sim.sglang.resolve import Resolution, integer
from spectune.sim.sglang.scheduler import Scheduler, SchedulerOptions
from spectune.sim.sglang.server import Server

DRAIN_POLL_S = 5.0
WARM_UP_TOKENS = 8


def main(argv: Sequence[str]) -> None:
    """Start, serve until a signal, and end as the engine does."""
    try:
        settings = environment.read(os.environ)
    except InputError as error:
        print(f"{error.message}\n{error.advice}", file=sys.stderr)
        raise SystemExit(2) from error
    asked_args, deprecations = flags.parse(argv)
    if "restart-needed-sigkill" in settings.faults:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    log = Log(integer(asked_args, "tp_size") or 1)
    for note in deprecations:
        log.raw(note)
    try:
        resolution = resolve.resolve(asked_args, settings.profile, settings.faults)
    except resolve.Refused as error:
        log.raw(f"Traceback (most recent call last):\n{error.kind}: {error.message}".rstrip(": "))
        raise SystemExit(1) from error
    for note in resolution.notes:
        log.line(note)
    log.line(flags.log_form(resolution.args))
    profile = settings.profile
    log.line(f"SIMULATED by spectune, profile {profile.name}: no figure of this server is a measurement.")
    memory = processes.GpuMemory(settings.gpu_file)
    fit = _load(resolution, settings, log, memory)
    listener = _listen(resolution, log, memory)
    processes.leave_orphans(settings.faults, listener, memory, int(fit.kv_gb * GIB))
    uvloop.run(_serve(resolution, fit, settings, log, memory, listener))


def _load(resolution: Resolution, settings: Environment, log: Log, memory: processes.GpuMemory) -> Fit:
    """Take the load time, logging what the scheduler logs meanwhile."""
    began = time.monotonic()
    profile, pid = settings.profile, os.getpid()
    memory.hold(pid, int(profile.weights_gb * GIB))
    try:
        fit = capacity.fit(resolution, profile, settings.faults)
        for share, line in startup.lines(resolution, fit, profile, settings.faults):
            time.sleep(max(0.0, began + share * settings.load_seconds - time.monotonic()))
            log.scheduler(line)
    except resolve.Refused as error:
        processes.die(log, memory, f"{error.kind}: {error.message}", loading=True)
    except startup.Died as error:
        processes.die(log, memory, str(error), loading=True)
    time.sleep(max(0.0, began + settings.load_seconds - time.monotonic()))
    memory.hold(pid, int(profile.gpu_gb * float(str(resolution.args["mem_fraction_static"])) * GIB))
    return fit


def _listen(resolution: Resolution, log: Log, memory: processes.GpuMemory) -> socket.socket:
    host, port = str(resolution.args["host"]), integer(resolution.args, "port") or 0
    log.line(f"INFO:     Started server process [{os.getpid()}]")
    log.line("INFO:     Waiting for application startup.")
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        log.line("INFO:     Application startup complete.")
        log.line(
            f"ERROR:    [Errno {error.errno}] error while attempting to bind on address ({host!r}, {port}): "
            f"{os.strerror(error.errno or 0).lower()}"
        )
        log.line("INFO:     Waiting for application shutdown.")
        memory.release(os.getpid())
        raise SystemExit(1) from error


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the engine."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(
    resolution: Resolution,
    fit: Fit,
    settings: Environment,
    log: Log,
    memory: processes.GpuMemory,
    listener: socket.socket,
) -> None:
    args = resolution.args
    speeds = Speeds(settings.profile)
    depths = Depths(resolution.draft, resolution.adaptive, speeds, settings.faults, log.scheduler)
    options = SchedulerOptions(
        log_interval=integer(args, "decode_log_interval") or 1,
        chunk=max(1, integer(args, "chunked_prefill_size") or 0),
        prefix_cache=not args["disable_radix_cache"],
    )

    def die(error: str) -> None:
        processes.die(log, memory, error, loading=False)

    scheduler = Scheduler(settings, depths, fit, log, options, die)
    server = Server(settings, resolution, fit, scheduler, log)
    config = uvicorn.Config(
        app.build(server), log_config=None, access_log=False, lifespan="off", ws="none", timeout_keep_alive=60
    )
    loop = asyncio.get_running_loop()
    drained = asyncio.Event()
    if "restart-needed-sigkill" not in settings.faults:
        loop.add_signal_handler(signal.SIGTERM, drained.set)
    loop.add_signal_handler(signal.SIGINT, drained.set)
    log.line("INFO:     Application startup complete.")
    log.line(f"INFO:     Uvicorn running on http://{args['host']}:{args['port']} (Press CTRL+C to quit)")
    tasks = [
        asyncio.create_task(work)
        for work in (
            _Uvicorn(config).serve([listener]),
            scheduler.run(),
            _warm_up(server, die),
            _drain(drained, server),
        )
    ]
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()
    processes.end(log, memory)


async def _warm_up(server: Server, die: Callable[[str], None]) -> None:
    """Make the server ready, unless a fault forbids it; then wait, for ever or for a death that was asked for."""
    faults, speed = server.environment.faults, server.environment.speed
    if "never-ready" in faults:
        await asyncio.Event().wait()
    await asyncio.sleep((faults.get("slow-warmup") or 0.0) / speed)
    job = server.scheduler.submit(asked.internal(WARM_UP_TOKENS))
    while job.reason is None:
        await job.wake.wait()
        job.wake.clear()
    server.ready = True
    server.log.line("The server is fired up and ready to roll!")
    seconds = faults.get("crash-after")
    if seconds is None:
        await asyncio.Event().wait()
    else:
        await asyncio.sleep(seconds / speed)
        die(f"RuntimeError: simulated crash {seconds:g} s after the start")


async def _drain(asked_to: asyncio.Event, server: Server) -> None:
    """After SIGTERM: until the last request has ended; looks every five seconds, or sooner if loading is cut short."""
    await asked_to.wait()
    server.draining = True
    server.log.line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    while remaining := len(server.scheduler.jobs()):
        server.log.line(f"Gracefully exiting... Remaining number of requests {remaining}.")
        await asyncio.sleep(max(0.05, DRAIN_POLL_S * server.environment.lifecycle))
    server.log.line("Gracefully exiting... Remaining number of requests 0.")


if __name__ == "__main__":
    main(sys.argv[1:])
