"""A run with findings as a file: the module's text, the conditions, and every pick of the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fusegen import __version__
from fusegen.errors import UsageError, field_fault
from fusegen.sim.mix import MAX_PROGRAMS
from fusegen.verify.trials import Condition

if TYPE_CHECKING:
    from fusegen.sim import RunResult
    from fusegen.verify.verdicts import Failure


class ReplayFile(BaseModel):
    """What it takes to repeat a run exactly, whatever has become of the module since.

    `picks` are the numbers of the actors in the order in which the schedule picked them; `late_stores` tells that
    stores were published as late as they may be. `findings` are those of the recorded run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["fusegen replay 1"] = "fusegen replay 1"
    fusegen: str = __version__
    kernel: str = Field(pattern=r"^[^/\\\x00]+$", max_length=200)
    ranks: int = Field(ge=1, le=16)
    cores: int = Field(ge=1, le=MAX_PROGRAMS)
    shape: Mapping[str, int]
    launches: int = Field(ge=1)
    seed: int
    target: str | None
    races: bool
    schedule: str
    late_stores: bool
    findings: tuple[str, ...]
    picks: tuple[int, ...]
    source: str

    @property
    def condition(self) -> Condition:
        """What the run ran under."""
        return Condition(self.ranks, self.cores, tuple(self.shape.items()), self.launches)

    def run(self) -> RunResult:
        """Run the recorded module under the recorded schedule.

        Raises ReplayMismatch when the run takes another course, because the simulator has changed since.
        """
        from fusegen.sim import Replay, run_module

        with TemporaryDirectory(prefix="fusegen-") as folder:
            module = Path(folder) / f"{self.kernel}.py"
            module.write_text(self.source, encoding="utf-8")
            return run_module(
                module,
                ranks=self.ranks,
                cores=self.cores,
                shape=self.shape,
                launches=self.launches,
                seed=self.seed,
                schedule=Replay(self.picks, late_stores=self.late_stores),
                target=self.target,
                races=self.races,
            )


def write_replay(folder: Path, failure: Failure) -> Path:
    """Write the file that reproduces a run with findings, and return its path in `folder`, which is made.

    The name tells kernel, finding and conditions: another run with the same name replaces the file. Raises UsageError
    where it cannot be written.
    """
    subject, condition = failure.subject, failure.condition
    content = ReplayFile(
        kernel=subject.name,
        ranks=condition.ranks,
        cores=condition.cores,
        shape=condition.shape,
        launches=condition.launches,
        seed=failure.seed,
        target=subject.target,
        races=failure.races,
        schedule=failure.schedule,
        late_stores=failure.late_stores,
        findings=tuple(map(str, failure.findings)),
        picks=failure.picks,
        source=subject.module.read_text(encoding="utf-8"),
    )
    sizes = "-".join(f"{axis}{extent}" for axis, extent in condition.shape.items())
    name = f"{subject.name}.{failure.findings[0].kind}.{condition.ranks}x{condition.cores}-{sizes}.json"
    path = folder / name
    partial = path.with_suffix(".partial")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial.write_text(content.model_dump_json() + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise UsageError(
            f"{path}: expected a folder for the file that reproduces {failure.findings[0].kind}, "
            f"got {error.strerror} (--replay-dir names another one)"
        ) from error
    return path


def read_replay(path: Path) -> ReplayFile:
    """The content of a replay file. Raises UsageError, which names every field that is wrong, for anything else."""
    try:
        return ReplayFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: expected a file that fusegen verify wrote, got {error.strerror}") from error
    except ValidationError as error:
        invalid = [each["ctx"]["error"] for each in error.errors() if each["type"] == "json_invalid"]
        if invalid:
            raise UsageError(f"{path}: expected the JSON that fusegen verify wrote, got {invalid[0]}") from error
        advice = "files of another version may lack it: fusegen verify writes a new one"
        faults = [field_fault(each, file=str(path), kind="replay file", advice=advice) for each in error.errors()]
        raise UsageError("\n".join(map(str, faults))) from error
