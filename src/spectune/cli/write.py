"""`spectune init` and `schema`: campaign files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from spectune import assemble
from spectune.cli import campaign_file, service, template
from spectune.cli.places import check_file
from spectune.domain.candidate import Method
from spectune.domain.errors import HostError, InputError
from spectune.domain.spec import CampaignSpec, SearchSpec, ServiceSpec, SpeculationSpace, WorkloadSpec

_SUGGESTED = (
    "A suggestion: spectune has not looked at any server of yours. Replace it by the flags that your server has today, "
    "in the engine's own spelling, without leading dashes; true for a bare flag. All is compared with these."
)


def init(
    out: Annotated[Path, typer.Argument(help="File to write.")] = Path("campaign.yaml"),
    model: Annotated[str, typer.Option(help="GGUF file to serve, or 'builtin'.")] = "builtin",
    draft_model: Annotated[str | None, typer.Option(help="Draft model for it, if there is one.")] = None,
    binary: Annotated[str, typer.Option("--engine-binary", help="llama-server to use, or 'auto'.")] = "auto",
    unit: Annotated[str, typer.Option("--unit", help="systemd unit to tune: its command line is read.")] = "",
    remote: service.Remote = "",
    edit_unit: Annotated[
        bool, typer.Option("--edit-unit", help="Promote by changing the unit file itself, not by a drop-in.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a commented campaign file: for this machine, or for a systemd service as it is."""
    check_file(out, "OUT")
    if out.exists() and not force:
        raise InputError(f"{out} exists already", "Name another file, or overwrite it with --force.")
    if remote and not unit:
        raise InputError("--remote goes with --unit", "Name the unit that serves there: --unit llm.service")
    if edit_unit and not unit:
        raise InputError("--edit-unit goes with --unit", "Name the unit that serves: --unit llm.service")
    if unit:
        spec = assemble.spec_from_unit(remote, unit, _name(out.stem), service.password(), edit_unit)
        about: dict[str, str] = {}
    else:
        _named("--model", lambda: assemble.check_model(model, "model"))
        _named("--draft-model", lambda: assemble.check_model(draft_model, "draft model"))
        _named("--engine-binary", lambda: assemble.check_program(binary))
        spec, about = _spec(out.stem, model, draft_model, binary), {"service.args": _SUGGESTED}
    text = template.render(spec, about)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HostError(f"cannot write {out}: {error.strerror}") from error
    campaign_file.load(out)
    typer.echo(f"wrote {out}; look it over, then: spectune check {out}")


def _named(option: str, check: Callable[[], None]) -> None:
    """Names the option in what a check finds wrong."""
    try:
        check()
    except InputError as error:
        role = f"{option.strip('-').replace('-', ' ')}: "
        raise InputError(f"{option}: {error.message.removeprefix(role)}", error.advice) from error


def schema() -> None:
    """Print the JSON Schema of campaign files."""
    typer.echo(campaign_file.schema(), nl=False)


def _spec(name: str, model: str, draft_model: str | None, binary: str) -> CampaignSpec:
    """A campaign that suits this machine: its cores, and what can draft for the model."""
    cores = assemble.usable_cores()
    spaces = [SpeculationSpace(Method.NGRAM, depths=(4, 8), settings={"spec-ngram-simple-size-n": 4})]
    draft = draft_model or ("builtin" if model == "builtin" else None)
    if draft is not None:
        spaces.insert(0, SpeculationSpace(Method.DRAFT, depths=(1, 2, 3, 4, 5), draft_model=draft))
    return CampaignSpec(
        name=_name(name),
        service=ServiceSpec(
            binary=binary, model=model, args={"threads": max(1, cores - 1), "ctx-size": 8192, "parallel": 4}
        ),
        search=SearchSpec(speculation=tuple(spaces), knobs={"threads": (cores,)} if cores > 1 else {}),
        workload=WorkloadSpec(concurrency=(1, 2, 4)),
    )


def _name(text: str) -> str:
    """A campaign's name that is like a text."""
    safe = "".join(char if char.isalnum() or char in "._-" else "-" for char in text).lstrip("._-") or "campaign"
    return safe[:64]
