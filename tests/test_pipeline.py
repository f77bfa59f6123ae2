"""The pipeline on a project of its own, and on this repository: what is checked in is what the specs render."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fusegen.errors import FaultsError, PlanError, UsageError
from fusegen.pipeline import build, build_all, check_project, render_project
from fusegen.project import Project, find_project, packaged_templates
from fusegen.render.files import MANIFEST, Problem
from fusegen.spec import load_spec

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A copy of this repository's specs, nothing generated yet."""
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    return Project(tmp_path, tmp_path / "specs", tmp_path / "generated", packaged_templates())


def test_the_generated_folder_of_this_repository_is_current() -> None:
    assert check_project(find_project(ROOT)) == []


def test_rendering_writes_only_what_changed(project: Project) -> None:
    names = sorted(path.stem for path in project.spec_paths())
    first = render_project(project)
    assert first.written == (*(f"{name}.py" for name in names), MANIFEST)
    second = render_project(project)
    assert second.written == ()
    assert second.unchanged == tuple(f"{name}.py" for name in names)
    assert check_project(project) == []


def test_rendering_one_spec_leaves_the_others_alone(project: Project) -> None:
    render_project(project, ["reverse_all2all_mte_signal"])
    others = sorted(path.stem for path in project.spec_paths() if path.stem != "reverse_all2all_mte_signal")
    assert [(d.filename, d.problem) for d in check_project(project)] == [
        *((f"{name}.py", Problem.MISSING) for name in others),
        (MANIFEST, Problem.STALE),
    ]


def test_rendering_reports_orphans_and_overwritten_edits(project: Project) -> None:
    render_project(project)
    module = project.module_path("reverse_all2all_mte_signal")
    module.write_text(module.read_text() + "# my change\n")
    (project.generated / "old.py").write_text("")
    report = render_project(project)
    assert report.written == ("reverse_all2all_mte_signal.py",)
    assert report.overwritten_edits == ("reverse_all2all_mte_signal.py",)
    assert report.orphans == ("old.py",)


def test_faults_of_all_specs_come_at_once_and_nothing_is_written(project: Project) -> None:
    """A value that no spec may have, and one that only the planner refuses, in two files."""
    changes = {
        "reverse_all2all_mte_barrier": ("buffer_num: 2", "buffer_num: 9"),
        "reverse_all2all_mte_signal": ("s: 64", "s: 1024"),
    }
    for name, (old, new) in changes.items():
        path = project.specs / f"{name}.yaml"
        path.write_text(path.read_text().replace(old, new))
    with pytest.raises(FaultsError) as caught:
        render_project(project)
    assert [fault.field for fault in caught.value.faults] == ["buffer_num", "tile.s"]
    assert not project.generated.exists()


def test_planner_faults_carry_file_and_line(project: Project) -> None:
    path = project.specs / "reverse_all2all_mte_signal.yaml"
    path.write_text(path.read_text().replace("s: 64", "s: 1024"))
    with pytest.raises(FaultsError) as caught:
        build_all(project)
    (fault,) = caught.value.faults
    line = path.read_text().splitlines().index(next(x for x in path.read_text().splitlines() if "s: 1024" in x)) + 1
    assert (fault.field, fault.line) == ("tile.s", line)
    assert str(fault).startswith(f"{path}:{line}: tile.s: expected two bfloat16 tiles")


def test_building_writes_nothing(project: Project) -> None:
    built = build(load_spec(project.find_spec("reverse_all2all_mte_signal")), project)
    assert built.name == "reverse_all2all_mte_signal"
    assert 'KERNEL = "reverse_all2all_mte_signal"' in built.text
    assert not project.generated.exists()


def test_planning_one_spec_says_that_it_is_the_plan_which_fails(project: Project) -> None:
    spec = load_spec(project.find_spec("reverse_all2all_mte_signal"), ["tile.s=1024"])
    with pytest.raises(PlanError, match=r"--set tile\.s: expected two bfloat16 tiles"):
        build(spec, project)


def test_an_unknown_name_is_refused(project: Project) -> None:
    with pytest.raises(UsageError, match="expected specs of specs, got nothing_here"):
        render_project(project, ["nothing_here"])
