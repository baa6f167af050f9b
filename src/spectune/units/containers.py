"""`docker run` and `podman run`: which command the container runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectune.domain.errors import InputError
from spectune.units.arguments import Arg, NoEngine
from spectune.units.options import CONTAINER_GLOBAL, CONTAINER_RUN
from spectune.units.programs import engine_of_image


@dataclass(frozen=True, slots=True)
class Contained:
    """What a container runs.

    Attributes:
        image: as it is written.
        args: the command in the container; only its arguments where the image starts the engine by itself.
        engine: the engine that the image starts; "" where args is a whole command.
        skipped: how many of args are not yet flags of that engine.
    """

    image: str
    args: tuple[Arg, ...]
    engine: str = ""
    skipped: int = 0


def container_command(args: Sequence[Arg]) -> Contained:
    """Reads the command line of docker or podman.

    Raises:
        InputError: it runs no container, has an option that is not known here, or an image of unknown entry point.
    """
    words = [arg.text for arg in args]
    at = CONTAINER_GLOBAL.skip(words)
    at += words[at : at + 1] == ["container"]
    name = words[0].rpartition("/")[2]
    if words[at : at + 1] != ["run"]:
        what = " ".join(words[at : at + 2])
        raise NoEngine(
            f"{name} {what} does not tell the engine's command line",
            f"write it by hand under service.args in the campaign file, or start the container with {name} run in"
            " ExecStart=",
        )
    options = [words[0], *words[at + 1 :]]
    image_at = CONTAINER_RUN.skip(options)
    if image_at == len(options):
        raise InputError(f"{name} run names no image")
    image = options[image_at]
    rest = tuple(args[at + image_at + 1 :])
    entry = CONTAINER_RUN.value(options, ("--entrypoint",), image_at)
    if entry:
        return Contained(image, (replace(args[at + image_at], text=entry), *rest))
    engine = engine_of_image(image, [arg.text for arg in rest])
    if engine:
        return Contained(image, rest, engine[0], engine[1])
    if not rest or rest[0].text.startswith("-"):
        raise InputError(
            f"what the image {image} starts by itself is not known here",
            f"name the command behind the image, or the program with --entrypoint, in the {name} run line",
        )
    return Contained(image, rest)
