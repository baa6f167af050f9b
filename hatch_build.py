"""Compiles the hot path of the load client when spectune is built or installed, where there is a C compiler.

Without one, or on a system that it is not written for, spectune works all the same: its client is then all Python,
takes up to twice the CPU time, and stamps later what waits to be read (docs/load-generator.md).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDER = Path("src/spectune/load/native")
_LIBRARY = _FOLDER / "_native.so"
_FLAGS = ("-O2", "-std=c11", "-Wall", "-Wextra", "-shared", "-fPIC", "-pthread")


class CompiledClient(BuildHookInterface[Any]):
    """Called by hatchling before it makes a wheel, an editable one included."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        why = compiled(root / _FOLDER / "reader.c", root / _LIBRARY)
        if why:
            self.app.display_warning(f"the load client is not compiled, and takes more CPU time: {why}")
            return
        build_data["artifacts"].append(str(_LIBRARY))
        build_data["pure_python"] = False
        # It knows nothing of Python, so that one library serves every version of it.
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def compiled(source: Path, library: Path) -> str:
    """Compiles a library, replacing what was there, and returns "", or why it cannot be done."""
    library.unlink(missing_ok=True)
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if compiler is None:
        return "there is no C compiler (cc, gcc or clang)"
    new = library.with_name(f".{library.name}.{os.getpid()}")
    try:
        done = subprocess.run(
            [*compiler.split(), *_FLAGS, "-o", str(new), str(source)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            return done.stderr.strip()[-500:]
        new.replace(library)
    except OSError as error:
        return str(error)
    finally:
        new.unlink(missing_ok=True)
    return ""
