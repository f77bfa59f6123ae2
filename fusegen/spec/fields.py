"""The types of spec fields, and the fields that all patterns share.

Every field has a description, which editors show through the JSON Schema, and a `Says`: the words in which a wrong
value is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from fusegen.targets import TARGETS, Target

Dtype = Literal["bfloat16", "float16", "float32"]
Transport = Literal["mte", "udma"]
Sync = Literal["barrier", "signal"]
Announce = Literal["per_tile", "batched"]
Reduce = Literal["ordered", "atomic"]
CommOrder = Literal["nz", "sequential"]

MAX_RANKS: Final = 16
MAX_BUFFERS: Final = 4
MAX_DESCRIPTION: Final = 110
TILE_SIZES: Final = (16, 32, 64, 128, 256, 512, 1024)
COMM_ROWS: Final = (1, 2, 4, 8, *TILE_SIZES)
"""Rows of a communication tile: even one row is a burst."""


@dataclass(frozen=True, slots=True)
class Says:
    """How a wrong value of a field is reported: `expected ...`, and advice in brackets after what stands there."""

    expected: str
    advice: str = ""


def _known_target(name: str) -> str:
    if name not in TARGETS:
        raise PydanticCustomError("fusegen_target", "unknown target")
    return name


def _tile_size(size: int) -> int:
    if size not in TILE_SIZES:
        raise PydanticCustomError("fusegen_tile", "not a tile size")
    return size


def _comm_rows(rows: int) -> int:
    if rows not in COMM_ROWS:
        raise PydanticCustomError("fusegen_comm_rows", "not a number of rows of a communication tile")
    return rows


def _different(ranks: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(ranks)) != len(ranks):
        raise PydanticCustomError("fusegen_different", "repeated entry")
    return ranks


def _docstring_line(text: str) -> str:
    """The text becomes a line of a docstring: it must not end the docstring, and keep within a line of the module."""
    fits = 0 < len(text) <= MAX_DESCRIPTION and text.isprintable() and text == text.strip()
    if not fits or '"""' in text or "\\" in text or text.endswith('"'):
        raise PydanticCustomError("fusegen_docstring_line", "not a line of a docstring")
    return text


TargetName = Annotated[str, AfterValidator(_known_target)]
TileSize = Annotated[int, AfterValidator(_tile_size)]
CommRows = Annotated[int, AfterValidator(_comm_rows)]
RankCount = Annotated[int, Field(ge=1, le=MAX_RANKS), Says(f"a whole number between 1 and {MAX_RANKS}")]
Extent = Annotated[int, Field(ge=0), Says("a whole number of at least 0")]

A_TILE_SIZE: Final = f"a power of two between {TILE_SIZES[0]} and {TILE_SIZES[-1]}"
SOME_COMM_ROWS: Final = f"a power of two between {COMM_ROWS[0]} and {COMM_ROWS[-1]}"
BLOCKS: Final = "Triton blocks are powers of two"
TILE_CHOICES: Final[dict[str, JsonValue]] = {"enum": list(TILE_SIZES)}
"""What the JSON Schema adds for a tile size."""


class SpecModel(BaseModel):
    """Common settings: values cannot change, keys must be known, and nothing is converted (`"2"` is no number)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class CommSwizzle(SpecModel):
    """The order in which tiles travel between ranks (guide 1.4)."""

    order: Annotated[CommOrder, Says("nz or sequential")] = Field(
        default="nz",
        description=(
            "Which rank a tile goes to or comes from. nz: neighbouring tiles have different partners, so all links "
            "carry data at once. sequential: one partner after the other."
        ),
    )
    npu_split: Annotated[int, Says(f"a whole number between 1 and {MAX_RANKS}", "1 counts the ranks one by one")] = (
        Field(
            default=1,
            ge=1,
            le=MAX_RANKS,
            description=(
                "Groups of ranks that neighbouring tiles take turns with: 2 visits 8 ranks as 0, 4, 1, 5, 2, 6, 3, 7. "
                "A split with which some rank would never be visited is refused."
            ),
        )
    )


class Swizzle(SpecModel):
    """The order of tiles."""

    comm: CommSwizzle = Field(default=CommSwizzle(), description="The order of tiles between ranks.")


class Watchdog(SpecModel):
    """The host-side guard of a launch: after a timeout it writes the signal slots to a JSON file."""

    enabled: Annotated[bool, Says("true or false")] = Field(
        default=True, description="Whether the generated launcher watches its launches for hangs."
    )
    timeout_s: Annotated[float, Says("a number of seconds greater than 0")] = Field(
        default=60.0, gt=0, description="Seconds without completion after which the signal slots are dumped."
    )


class Debug(SpecModel):
    """What a kernel does only to be found out: checks that cost a store or a copy in every launch."""

    total_cores: Annotated[bool, Says("true or false")] = Field(
        default=False,
        description=(
            "Whether program 0 of a launch stores the number of programs, which `synchronize` compares with the cores "
            "of the workspace: a grid of another size leaves work undone, or hangs (guide 2.1)."
        ),
    )


class Shape(SpecModel):
    """Tensor sizes by axis; each pattern has axes of its own."""


class VerifyPoint(SpecModel):
    """One verification point: a shape that runs once with each of the listed rank counts."""

    ranks: Annotated[
        tuple[RankCount, ...],
        AfterValidator(_different),
        Says(f"a list of different rank counts, each between 1 and {MAX_RANKS}", "for example [1, 2, 5]"),
    ] = Field(
        strict=False,
        min_length=1,
        description="Rank counts to run this point with, for example [1, 2, 5].",
        json_schema_extra={"uniqueItems": True},
    )
    cores: Annotated[int, Says("a whole number of at least 1")] = Field(
        ge=1, description="Cores of each rank that the kernel is launched on."
    )
    launches: Annotated[int, Says("a whole number of at least 1")] = Field(
        default=3, ge=1, description="Launches on one workspace, one after another, with fresh input each time."
    )
    shape: Shape = Field(description="Tensor sizes of this point.")


Point = TypeVar("Point", bound=VerifyPoint)
VerifyPoints = Annotated[
    tuple[Point, ...],
    Field(strict=False, min_length=1, description="Shapes, ranks and cores that the kernel is proved with."),
    Says("a list of verification points", "each with ranks, cores and shape"),
]


Name = TypeVar("Name", bound=str)
PatternName = Annotated[Name, Field(description="The fused collective to generate."), Says("the name of a pattern")]


class SpecBase(SpecModel):
    """The fields that every pattern has."""

    core_kind: ClassVar[Literal["vector", "AI"]]
    """What kind of core a program of the kernel runs on: a kernel with a GEMM needs the cube core as well."""

    pattern: PatternName[str]
    description: Annotated[
        Annotated[str, AfterValidator(_docstring_line)] | None,
        Says(
            f"one line of 1 to {MAX_DESCRIPTION} characters",
            "it becomes a line of a docstring: no backslash, no triple or final double quotes, no spaces around it",
        ),
    ] = Field(
        default=None,
        description="What the kernel is for, in one line; it opens the docstring of the generated module.",
    )
    dtype: Annotated[Dtype, Says("bfloat16, float16 or float32")] = Field(
        description="Element type of the input, and of the output where nothing else is said."
    )
    target: Annotated[TargetName, Says("a known target", "targets: " + ", ".join(TARGETS))] = Field(
        description="Device the kernel is planned for; it sets the core counts and the memory limits.",
        json_schema_extra={"enum": list(TARGETS)},
    )
    transport: Annotated[Transport, Says("mte or udma")] = Field(
        description=(
            "Engine that carries data between ranks. mte: loads and stores through mapped peer addresses. udma: the "
            "copy engine of the 950 family moves whole blocks; patterns that add what they receive cannot use it."
        )
    )
    sync: Annotated[Sync, Says("barrier or signal")] = Field(
        description=(
            "How producers and consumers meet. barrier: every core of every rank meets after each phase of a round. "
            "signal: each tile has a slot, so a consumer starts as soon as its own tile has arrived."
        )
    )
    announce: Annotated[Announce, Says("per_tile or batched")] = Field(
        default="per_tile",
        description=(
            "When signals are sent. per_tile: a fence and a notify after each tile. batched: all stores of a round, "
            "one fence, then all notifies (needs sync: signal)."
        ),
    )
    buffer_num: Annotated[
        int,
        Says(f"a whole number between 1 and {MAX_BUFFERS}", "2 overlaps moving and consuming; more cost memory"),
    ] = Field(
        default=2,
        ge=1,
        le=MAX_BUFFERS,
        description="Depth of the ring of landing buffers. 2 lets one round be consumed while the next arrives.",
    )
    swizzle: Swizzle = Field(default=Swizzle(), description="In which order tiles are worked on.")
    watchdog: Watchdog = Field(default=Watchdog(), description="Host-side guard that reports hangs.")
    debug: Debug = Field(default=Debug(), description="Checks for debugging, off by default.")
    verify: VerifyPoints[VerifyPoint]


class Reduction(SpecBase):
    """The fields of patterns in which every rank contributes a term to each element of the result."""

    reduce: Annotated[Reduce, Says("ordered or atomic")] = Field(
        default="ordered",
        description=(
            "How the terms of the ranks are added. ordered: in a fixed order, so results are the same every "
            "time. atomic: in the order of arrival, which rounds differently from run to run with 3 or more ranks."
        ),
    )


def cores_of(spec: SpecBase, target: Target) -> int:
    """The cores of a device that programs of the kernel can run on."""
    return target.vector_cores if spec.core_kind == "vector" else target.ai_cores
