"""What users install: the wheel alone, in an environment and a folder that hold nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "--disable-pip-version-check", "-qq", "install", "--constraint", str(ROOT / "constraints.txt"))


class Installation:
    """A virtual environment of its own, and an empty folder to work in."""

    def __init__(self, home: Path) -> None:
        self.bin = home / "venv/bin"
        self.work = home / "work"
        self.work.mkdir()
        venv.create(home / "venv", with_pip=True)

    def run(self, program: str, *arguments: str, status: int = 0) -> str:
        """What a program of the environment prints on stdout."""
        hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        done = subprocess.run(
            [str(self.bin / program), *arguments], cwd=self.work, env=environment, capture_output=True, text=True
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout if status == 0 else done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("fusegen-*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    user = Installation(tmp_path)
    user.run("python", *PIP, str(wheel))
    assert user.run("fusegen", "new", "reverse_all2all", "--name", "mine").splitlines()[0] == "wrote specs/mine.yaml"
    user.run("fusegen", "render")
    assert json.loads(user.run("fusegen", "check", "--json")) == {"ok": True, "differences": []}
    assert json.loads(user.run("fusegen", "doctor", "--json"))["extras"]["sim"]["installed"] is False
    assert user.run("fusegen", "run", "mine", status=2) == (
        "greenlet is not installed: this command needs the extra sim: "
        "pip install 'fusegen[sim]', or in a checkout pip install '.[sim]'\n"
    )

    user.run("python", *PIP, f"{wheel}[sim]")
    document = json.loads(user.run("fusegen", "run", "mine", "--json"))
    assert (document["spec"], document["ok"], document["findings"]) == ("mine", True, [])
