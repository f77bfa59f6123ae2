"""Where a project's folders are, with and without configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

import fusegen
from fusegen.errors import ProjectError
from fusegen.project import Project, find_project, packaged_templates


def configure(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


def test_without_configuration(tmp_path: Path) -> None:
    assert find_project(tmp_path) == Project(tmp_path, tmp_path / "specs", tmp_path / "generated", packaged_templates())


def test_a_pyproject_without_our_table_changes_nothing(tmp_path: Path) -> None:
    configure(tmp_path, "[tool.other]\nspecs = 'x'\n")
    assert find_project(tmp_path).specs == tmp_path / "specs"


def test_the_nearest_table_counts_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    configure(tmp_path, "[tool.fusegen]\nspecs = 'far'\n")
    configure(tmp_path / "a", "[tool.fusegen]\nspecs = 'k/specs'\ngenerated = 'k'\ntemplates = 'k/t'\n")
    configure(tmp_path / "a/b/c", "[project]\nname = 'x'\n")
    root = tmp_path / "a"
    assert find_project(tmp_path / "a/b/c") == Project(root, root / "k/specs", root / "k", root / "k/t")


def test_options_win_and_are_relative_to_the_current_directory(tmp_path: Path) -> None:
    configure(tmp_path, "[tool.fusegen]\nspecs = 'far'\ngenerated = 'out'\n")
    here = tmp_path / "here"
    here.mkdir()
    project = find_project(here, specs=Path("mine"), generated=tmp_path / "abs")
    assert (project.specs, project.generated) == (here / "mine", tmp_path / "abs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.fusegen]\nspec = 'x'\n", "tool.fusegen.spec: expected a known key, got spec (did you mean specs?)"),
        (
            "[tool.fusegen]\nqqq = 'x'\n",
            "tool.fusegen.qqq: expected a known key, got qqq (keys: specs, generated, templates)",
        ),
        ("[tool.fusegen]\nspecs = 3\n", "tool.fusegen.specs: expected the path of a folder, got 3"),
        ("[tool.fusegen]\nspecs = ''\n", "tool.fusegen.specs: expected the path of a folder, got ''"),
        ("[tool]\nfusegen = 3\n", "tool.fusegen: expected a table, got 3"),
        (
            "[tool\n",
            "expected valid TOML, got a syntax error "
            "(the parser says: Expected ']' at the end of a table declaration (at line 1, column 6))",
        ),
    ],
)
def test_wrong_configuration(tmp_path: Path, text: str, message: str) -> None:
    configure(tmp_path, text)
    with pytest.raises(ProjectError) as caught:
        find_project(tmp_path)
    assert str(caught.value) == f"{tmp_path}/pyproject.toml: {message}"


def test_all_wrong_keys_are_reported_together(tmp_path: Path) -> None:
    configure(tmp_path, "[tool.fusegen]\nspec = 'x'\ngenerate = 'y'\n")
    with pytest.raises(ProjectError) as caught:
        find_project(tmp_path)
    assert len(str(caught.value).splitlines()) == 2


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "specs").mkdir()
    for name in ("b.yaml", "a.yaml", "fusegen.schema.json"):
        (tmp_path / "specs" / name).touch()
    return find_project(tmp_path)


def test_spec_paths_are_sorted(project: Project) -> None:
    assert project.spec_paths() == (project.specs / "a.yaml", project.specs / "b.yaml")


def test_no_specs_folder(tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        find_project(tmp_path).spec_paths()
    assert str(caught.value) == (
        "specs: expected a folder of specs, got none (fusegen new PATTERN writes a first spec)"
    )


def test_the_other_suffix_is_not_overlooked(project: Project) -> None:
    (project.specs / "c.yml").touch()
    with pytest.raises(ProjectError) as caught:
        project.spec_paths()
    assert str(caught.value) == "specs/c.yml: expected the suffix .yaml, got .yml (rename the file)"


def test_find_spec(project: Project) -> None:
    assert project.find_spec("a") == project.specs / "a.yaml"
    assert project.find_spec("some/where.yaml") == Path("some/where.yaml")


@pytest.mark.parametrize(
    ("name", "advice"), [("bb", "did you mean b?"), ("x", "specs: a, b"), ("a.yml", "specs: a, b")]
)
def test_find_spec_offers_names(project: Project, name: str, advice: str) -> None:
    with pytest.raises(ProjectError) as caught:
        project.find_spec(name)
    assert str(caught.value) == f"expected a spec in specs, or a path to a .yaml file, got {name} ({advice})"


def test_module_path(project: Project) -> None:
    assert project.module_path("a") == project.generated / "a.py"


def test_templates_of_a_checkout_lie_beside_the_package() -> None:
    assert packaged_templates() == Path(fusegen.__file__).parents[1] / "templates"


def test_generated_modules_need_a_folder_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        find_project(tmp_path, generated=Path("specs"))
    assert str(caught.value) == "generated: expected a folder of its own, got specs, which is that of the specs"
