"""What a spec may say: one frozen model for each pattern, over fields that all patterns share.

These models check single fields. Rules about several fields stand in `rules.py`, and what fits a device is the
planner's business. Every field has a description, which editors show through the JSON Schema, and a `Says`: the words
in which a wrong value is reported.

To add a pattern, write its model beside `ReverseAll2All`, and name it in `KernelSpec` and `PATTERNS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from fusegen.targets import TARGETS

Dtype = Literal["bfloat16", "float16", "float32"]
Transport = Literal["mte"]
Sync = Literal["barrier", "signal"]
Flatten = Literal["none", "s", "auto"]
Roles = Literal["interleaved", "shared"]

MAX_RANKS: Final = 16
MAX_BUFFERS: Final = 4
MAX_DESCRIPTION: Final = 110
TILE_SIZES: Final = (16, 32, 64, 128, 256, 512, 1024)


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
RankCount = Annotated[int, Field(ge=1, le=MAX_RANKS), Says(f"a whole number between 1 and {MAX_RANKS}")]
Extent = Annotated[int, Field(ge=0), Says("a whole number of at least 0")]


class SpecModel(BaseModel):
    """Common settings: values cannot change, keys must be known, and nothing is converted (`"2"` is no number)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Tile(SpecModel):
    """The piece of the tensor that one task moves: s rows of d elements each."""

    s: Annotated[
        TileSize,
        Says(
            f"a power of two between {TILE_SIZES[0]} and {TILE_SIZES[-1]}",
            "the rows of a tile are a block of S, and Triton blocks are powers of two",
        ),
    ] = Field(
        default=64,
        description="Rows of S in one tile; also the size of the S blocks that the rounds walk over. Power of two.",
        json_schema_extra={"enum": list(TILE_SIZES)},
    )
    d: Annotated[
        TileSize,
        Says(
            f"a power of two between {TILE_SIZES[0]} and {TILE_SIZES[-1]}",
            "a tile row is one MTE burst, and Triton blocks are powers of two: a D that is no multiple is masked",
        ),
    ] = Field(
        default=128,
        description="Elements of D in one tile row, contiguous in memory. Power of two; the tail of D is masked.",
        json_schema_extra={"enum": list(TILE_SIZES)},
    )


class Watchdog(SpecModel):
    """The host-side guard of a launch: after a timeout it writes the signal slots to a JSON file."""

    enabled: Annotated[bool, Says("true or false")] = Field(
        default=True, description="Whether the generated launcher watches its launches for hangs."
    )
    timeout_s: Annotated[float, Says("a number of seconds greater than 0")] = Field(
        default=60.0, gt=0, description="Seconds without completion after which the signal slots are dumped."
    )


class ReverseAll2AllShape(SpecModel):
    """Sizes for one verification run: A is (S * ranks, H, D) on each rank, and C is (S, H * ranks, D)."""

    S: Extent = Field(description="Rows that each rank receives from each other rank.")
    H: Extent = Field(description="Heads on one rank, before heads of all ranks are gathered.")
    D: Extent = Field(description="Elements of one head, contiguous in memory.")


class ReverseAll2AllPoint(SpecModel):
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
        ge=1, description="Vector cores of each rank. Interleaved roles need at least 2."
    )
    launches: Annotated[int, Says("a whole number of at least 1")] = Field(
        default=3, ge=1, description="Launches on one workspace, one after another, with fresh input each time."
    )
    shape: ReverseAll2AllShape = Field(description="Tensor sizes of this point.")


class SpecBase(SpecModel):
    """The fields that every pattern has."""

    pattern: Annotated[str, Says("the name of a pattern")] = Field(description="The fused collective to generate.")
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
        description="Element type of the input and the output."
    )
    target: Annotated[TargetName, Says("a known target", "targets: " + ", ".join(TARGETS))] = Field(
        description="Device the kernel is planned for; it sets the core counts and the memory limits.",
        json_schema_extra={"enum": list(TARGETS)},
    )
    transport: Annotated[Transport, Says("mte", "the only transport that is possible")] = Field(
        description="Engine that carries data between ranks. mte: loads and stores through mapped peer addresses."
    )
    sync: Annotated[Sync, Says("barrier or signal")] = Field(
        description=(
            "How producers and consumers meet. barrier: every core of every rank meets after each phase of a round. "
            "signal: each tile has a slot, so a consumer starts as soon as its own tile has arrived."
        )
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
    watchdog: Watchdog = Field(default=Watchdog(), description="Host-side guard that reports hangs.")


class ReverseAll2All(SpecBase):
    """Reverse All2All: every rank sends each peer its rows of S, and gathers the heads of all ranks.

    `C_r[s, q * H + h, d] = A_q[r * S + s, h, d]` for rank r and every source rank q.
    """

    pattern: Annotated[Literal["reverse_all2all"], Says("the name of a pattern")] = Field(
        description="The fused collective to generate."
    )
    tile: Tile = Field(default=Tile(), description="The piece of the tensor that one task moves.")
    flatten: Annotated[
        Flatten,
        Says("none, s or auto"),
    ] = Field(
        default="auto",
        description=(
            "Work flattening. none: cores share the tiles of one S block at a time. s: S blocks are part of the work "
            "index too, so small H fills the cores (needs sync: signal). auto: merges S, then H, then D blocks until "
            "the cores of a role are filled, as far as the sync allows."
        ),
    )
    roles: Annotated[Roles, Says("interleaved or shared")] = Field(
        default="interleaved",
        description=(
            "Who produces and who consumes. interleaved: even cores produce, odd cores consume, at the same time. "
            "shared: every core produces and then consumes in each round (needs sync: barrier)."
        ),
    )
    verify: Annotated[
        tuple[ReverseAll2AllPoint, ...],
        Says("a list of verification points", "each with ranks, cores and shape"),
    ] = Field(strict=False, min_length=1, description="Shapes, ranks and cores that the kernel is proved with.")


KernelSpec = ReverseAll2All
"""Any spec: the union of the pattern models, told apart by `pattern`."""

PATTERNS: Final[Mapping[str, type[KernelSpec]]] = MappingProxyType({"reverse_all2all": ReverseAll2All})
