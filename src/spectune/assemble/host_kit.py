"""What must be known before a service on a host is tuned, asked of that host: engine, model, hardware."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from spectune.assemble.engines import KITS, SIMULATED, SIMULATED_SGLANG, Located, Progress
from spectune.assemble.gpu_memory import memory_query, memory_told
from spectune.domain.deployment import Hardware, Page
from spectune.domain.errors import CommandTimedOut, InputError
from spectune.domain.hosts import Host, Ran
from spectune.domain.ports import Engine
from spectune.domain.spec import ServiceSpec
from spectune.engines.llamacpp.adapter import LlamaCpp
from spectune.engines.sglang import SGLang, parse_help
from spectune.provision import models

_ASK_S = 60.0
_HELP_S = 300.0
_DIGEST_S = 3600.0
_VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
_INTERPRETER = 'head -n 1 -- "$1" | sed -n "s/^#! *\\([^ ]*python[^ ]*\\).*/\\1/p"'
# Names and sizes of all files and the text of the small ones: weights of hundreds of gigabytes are not read.
_FOLDER = (
    'cd -- "$1" && find . -type f ! -path "*/.git/*" -printf "%P %s\\n" | LC_ALL=C sort'
    ' && find . -type f ! -path "*/.git/*" -size -1025k -exec sha256sum {} + | LC_ALL=C sort'
)
_HARDWARE = r"""
hostname; uname -r; nproc
sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo
sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1 | grep . || uname -m
! command -v nvidia-smi >/dev/null || nvidia-smi --query-gpu=name,memory.total --format=csv,noheader 2>/dev/null
true
"""


class HostKit:
    """See engines.Kit: the same, asked of another host.

    Args:
        env: variables with which the service runs there.
    """

    def __init__(self, engine: str, host: Host, where: str, env: Mapping[str, str]) -> None:
        kit = KITS[engine]
        self.pages = kit.pages
        self.keep_alive = kit.keep_alive
        self.most_port = kit.most_port
        self._engine = engine
        self._kit = kit
        self._host = host
        self._where = where
        self._env = dict(env)

    def gpu_memory(self) -> int | None:
        """Bytes in use on the GPUs that the service sees; None where there is none or the host does not tell."""
        try:
            ran = self._host.run(memory_query(self._env), timeout_s=_ASK_S)
        except CommandTimedOut:
            return None
        return memory_told(ran.text) if ran.code == 0 else None

    def recognises(self, pages: Mapping[str, Page]) -> Engine | None:
        """See Kit."""
        return self._kit.recognises(pages)

    def locate(self, service: ServiceSpec, progress: Progress, build: bool) -> Located:
        """See Kit; nothing is built on a host."""
        if service.binary == "auto":
            raise InputError(
                "service.binary must name the engine's program on the host",
                "spectune init --remote HOST --unit UNIT reads it from the unit.",
            )
        if self._host.run(["test", "-x", service.binary], timeout_s=_ASK_S).code != 0 and "/" in service.binary:
            raise InputError(f"there is no program {service.binary} on {self._where}", "See service.binary.")
        progress(f"asking the engine on {self._where} for its version and flags", None)
        return self._llama(service) if self._engine == "llama.cpp" else self._sglang(service)

    def model(self, name: str, role: models.Role, progress: Progress) -> str:
        """See Kit. A path must exist on the host; a name on a hub is taken as it is."""
        if name == "builtin":
            raise InputError(f"{role}: 'builtin' is for servers of spectune's own", "Name the path on the host.")
        if name.startswith("/") and self._host.run(["test", "-e", name], timeout_s=_ASK_S).code != 0:
            raise InputError(f"{role}: there is no {name} on {self._where}", "Name the path as it is there.")
        return name

    def model_id(self, service: ServiceSpec) -> str:
        """See Kit."""
        return self._kit.model_id(service)

    def bytes_of(self, model: str) -> int:
        """Not known from here."""
        return 0

    def digest(self, model: str, progress: Callable[[float], None]) -> str:
        """See Kit. Tells folders apart by names and sizes of their files, single files by their content."""
        if not model.startswith("/"):
            return hashlib.sha256(model.encode()).hexdigest()
        folder = self._host.run(["test", "-d", model], timeout_s=_ASK_S).code == 0
        argv = ["/bin/sh", "-c", _FOLDER, "sh", model] if folder else ["sha256sum", "--", model]
        listed = self._host.run(argv, timeout_s=_DIGEST_S).checked(f"reading {model} on {self._where}").out
        return hashlib.sha256(listed).hexdigest() if folder else listed.split()[0].lstrip(b"\\").decode()

    def _llama(self, service: ServiceSpec) -> Located:
        ran = self._run(service.binary, "--version")
        said = (ran.text + ran.err.decode(errors="replace")).strip().splitlines()
        told = next((line.removeprefix("version:").strip() for line in said if line.startswith("version:")), "")
        return Located(Path(service.binary), (), told, LlamaCpp())

    def _sglang(self, service: ServiceSpec) -> Located:
        binary = Path(service.binary)
        usual = ("serve",) if binary.name == "sglang" else ("-m", "sglang.launch_server")
        entry = tuple(shlex.split(service.entry)) or usual
        flags = parse_help(self._run(service.binary, *entry, "--help").text) or None
        if any(word.startswith(SIMULATED) for word in entry):
            version = f"{SIMULATED_SGLANG}+sim"
            adapter = SGLang(flags, SIMULATED_SGLANG)
            return Located(binary, entry, version, adapter, f"spectune's simulated SGLang {version}")
        python = service.binary
        if "python" not in binary.name:
            script = ["/bin/sh", "-c", _INTERPRETER, "sh", service.binary]
            python = self._host.run(script, timeout_s=_ASK_S).text.strip()
        version = self._run(python, "-c", _VERSION, "sglang").text.strip() if python else ""
        return Located(binary, entry, version, SGLang(flags, version or None))

    def _run(self, *argv: str) -> Ran:
        return self._host.run(
            ["env", *(f"{name}={value}" for name, value in self._env.items()), *argv], timeout_s=_HELP_S
        )


def describe(host: Host, where: str) -> Hardware:
    """What a host is. Raises CommandFailed where it does not tell."""
    told = host.run(["/bin/sh", "-c", _HARDWARE], timeout_s=_ASK_S).checked(f"asking {where} what it is").text
    name, kernel, cores, memory, cpu, *gpus = (line.strip() for line in [*told.splitlines(), *[""] * 5][:64])
    return Hardware(
        hostname=name,
        cpu=cpu,
        cores=int(cores) if cores.isdigit() else 0,
        memory_bytes=int(memory) * 1024 if memory.isdigit() else 0,
        gpus=tuple(gpu for gpu in gpus if gpu),
        kernel=kernel,
    )


def load_average(host: Host) -> float:
    """1-minute load average of a host; 0 where it does not tell."""
    words = host.run(["cat", "/proc/loadavg"], timeout_s=_ASK_S).text.split()
    return float(words[0]) if words else 0.0
