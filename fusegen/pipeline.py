"""fusegen in one page: load a spec, plan the kernel, render the module, write the file.

    specs/x.yaml --load--> KernelSpec --plan--> KernelPlan --render--> text --write--> generated/x.py

What is tested afterwards (`fusegen.sim`) is the file, not the plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fusegen.errors import Fault, FaultsError, PlanError, UsageError
from fusegen.plan import KernelPlan, make_plan
from fusegen.plan.passes.budget import memory_faults
from fusegen.project import Project
from fusegen.render.entry import kernel_entry
from fusegen.render.environment import render
from fusegen.render.files import (
    MANIFEST,
    Difference,
    Problem,
    RenderedModule,
    differences,
    manifest_text,
    read_manifest,
    replace_file,
)
from fusegen.spec import LoadedSpec, load_spec


@dataclass(frozen=True, slots=True)
class BuiltModule:
    """A spec on its way through the pipeline: the plan and the text that belong to it."""

    spec: LoadedSpec
    plan: KernelPlan
    text: str

    @property
    def name(self) -> str:
        """Name of the spec, and of the module."""
        return self.spec.name

    def rendered(self) -> RenderedModule:
        """The module as the generated folder should have it."""
        return RenderedModule(self.name, self.text, self.spec.sha256, kernel_entry(self.plan))

    @property
    def memory_faults(self) -> tuple[Fault, ...]:
        """Tiles that the planner finds too large for the target's memory, each with its place in the spec."""
        return tuple(self.spec.located(fault) for fault in memory_faults(self.plan))


@dataclass(frozen=True, slots=True)
class RenderReport:
    """What a rendering did to the generated folder, by file name."""

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    overwritten_edits: tuple[str, ...]
    orphans: tuple[str, ...]


def plan_spec(spec: LoadedSpec, *, memory_check: bool = True) -> KernelPlan:
    """The plan of a loaded spec. Raises PlanError with the file and line of each fault."""
    try:
        return make_plan(spec.name, spec.spec, memory_check=memory_check)
    except PlanError as error:
        raise PlanError(spec.located(fault) for fault in error.faults) from None


def build(spec: LoadedSpec, project: Project, *, memory_check: bool = True) -> BuiltModule:
    """Plan and render one spec; nothing is written. Without `memory_check` tiles may be too large for the device."""
    plan = plan_spec(spec, memory_check=memory_check)
    return BuiltModule(spec, plan, render(plan, project.templates))


def build_all(project: Project) -> dict[str, BuiltModule]:
    """Load, plan and render every spec of the project. Raises FaultsError with the faults of all specs at once."""
    built: dict[str, BuiltModule] = {}
    faults: list[Fault] = []
    for path in project.spec_paths():
        try:
            built[path.stem] = build(load_spec(path), project)
        except FaultsError as error:
            faults += error.faults
    if faults:
        raise FaultsError(faults)
    return built


def render_project(project: Project, names: Iterable[str] = ()) -> RenderReport:
    """Bring the generated folder up to date, for the named specs or for all. Writes only what changed.

    Nothing is written when any spec of the project has a fault: the manifest covers them all. Raises FaultsError for
    faults, UsageError for a name that no spec of the project has.
    """
    built = build_all(project)
    modules = {name: module.rendered() for name, module in built.items()}
    chosen = sorted(set(names) or modules.keys())
    if unknown := [name for name in chosen if name not in modules]:
        raise UsageError(f"expected specs of {project.shown(project.specs)}, got {', '.join(unknown)}")
    before = {difference.filename: difference.problem for difference in differences(project.generated, modules)}
    written = [f"{name}.py" for name in chosen if replace_file(project.module_path(name), modules[name].text)]
    kept = {name: entry for name, entry in read_manifest(project.generated).items() if name in modules}
    manifest = manifest_text({name: modules[name] for name in chosen}, kept)
    if replace_file(project.generated / MANIFEST, manifest):
        written.append(MANIFEST)
    return RenderReport(
        written=tuple(written),
        unchanged=tuple(f"{name}.py" for name in chosen if f"{name}.py" not in written),
        overwritten_edits=tuple(name for name in written if before.get(name) is Problem.EDITED),
        orphans=tuple(name for name, problem in before.items() if problem is Problem.ORPHAN),
    )


def module_states(specs: Iterable[LoadedSpec], project: Project) -> dict[str, str]:
    """What check says about the module of each spec, by name of the spec, or that there is no plan for it."""
    modules: dict[str, RenderedModule] = {}
    states: dict[str, str] = {}
    for spec in specs:
        states[spec.name] = "current"
        try:
            modules[spec.name] = build(spec, project).rendered()
        except PlanError:
            states[spec.name] = "cannot be planned"
    problems = {difference.filename: difference.problem.value for difference in differences(project.generated, modules)}
    return states | {name: problems[f"{name}.py"] for name in modules if f"{name}.py" in problems}


def check_project(project: Project) -> list[Difference]:
    """Every file of the generated folder that is not what the specs say."""
    modules = {name: built.rendered() for name, built in build_all(project).items()}
    return list(differences(project.generated, modules))
