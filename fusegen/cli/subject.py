"""What a SPEC argument means: the module to run, and the spec and plan that belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from fusegen.cli.base import note_cores
from fusegen.cli.values import Size
from fusegen.errors import PlanError, UsageError
from fusegen.project import Project
from fusegen.sim.mix import CoreUnit

if TYPE_CHECKING:
    from fusegen.plan import KernelPlan
    from fusegen.spec import LoadedSpec


@dataclass(frozen=True, slots=True)
class RunSubject:
    """The module to run, and the spec and plan that belong to it, if there are any."""

    module: Path
    loaded: LoadedSpec | None
    plan: KernelPlan | None

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.module.stem


@contextmanager
def open_subject(name: str, project: Project, overrides: tuple[str, ...]) -> Iterator[RunSubject]:
    """What `name` means; a module that is rendered for this run is removed afterwards."""
    from fusegen.pipeline import build
    from fusegen.spec import load_spec

    if name.endswith(".py"):
        yield _given_module(Path(name), project, overrides)
        return
    loaded = load_spec(project.find_spec(name), overrides)
    built = build(loaded, project)
    module = project.module_path(loaded.name)
    if module.is_file() and not overrides:
        if module.read_bytes() != built.text.encode():
            shown = project.shown(module)
            click.echo(f"warning: {shown} runs as it stands, but differs from what its spec renders", err=True)
        yield RunSubject(module, loaded, built.plan)
        return
    with TemporaryDirectory(prefix="fusegen-") as folder:
        module = Path(folder) / f"{loaded.name}.py"
        module.write_text(built.text, encoding="utf-8")
        yield RunSubject(module, loaded, built.plan)


def _given_module(module: Path, project: Project, overrides: tuple[str, ...]) -> RunSubject:
    """A module named by its path, with the spec of the same name if the project has one."""
    from fusegen.spec import load_spec

    if overrides:
        raise UsageError(f"expected --set with a spec, got it with the finished module {module}")
    if not module.is_file():
        raise UsageError(f"SPEC: expected a generated module, got no such file: {module}")
    try:
        module.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{module}: expected text in UTF-8, got {error.reason} at byte {error.start}") from error
    spec = project.specs / f"{module.stem}.yaml"
    return RunSubject(module, load_spec(spec) if spec.is_file() else None, None)


def refuse_impossible(plan: KernelPlan | None, size: Size, unit: CoreUnit) -> None:
    """Raises PlanError before gigabytes are allocated for a run that the launcher would refuse."""
    if plan is None:
        return
    from fusegen.plan.evaluate import Conditions
    from fusegen.plan.explain import condition_faults

    if faults := condition_faults(plan, Conditions(size.ranks, size.cores, size.shape)):
        raise PlanError(faults)
    note_cores(plan, size.cores, unit)
