"""Specs of kernels that move data between ranks and compute nothing, or sums: vector kernels.

Notation: `A_q` is the input of rank q, `C_r` the output of rank r.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from fusegen.spec.fields import (
    A_TILE_SIZE,
    BLOCKS,
    TILE_CHOICES,
    Extent,
    PatternName,
    Reduction,
    Says,
    Shape,
    SpecBase,
    SpecModel,
    TileSize,
    VerifyPoint,
    VerifyPoints,
)

Roles = Literal["interleaved", "shared"]

_BURST: Final = f"a tile row is one MTE burst, and {BLOCKS}: {{0}} that is no multiple is masked"


class HeadTile(SpecModel):
    """The piece of the tensor that one task moves: s rows of d elements each, of one head."""

    s: Annotated[TileSize, Says(A_TILE_SIZE, f"the rows of a tile are a block of S, and {BLOCKS}")] = Field(
        default=64,
        description="Rows of S in one tile; also the size of the S blocks that the rounds walk over. Power of two.",
        json_schema_extra=TILE_CHOICES,
    )
    d: Annotated[TileSize, Says(A_TILE_SIZE, _BURST.format("a D"))] = Field(
        default=128,
        description="Elements of D in one tile row, contiguous in memory. Power of two; the tail of D is masked.",
        json_schema_extra=TILE_CHOICES,
    )


class RowTile(SpecModel):
    """The piece of the tensor that one task moves: m rows of n elements each."""

    m: Annotated[TileSize, Says(A_TILE_SIZE, f"the rows of a tile are a block of M, and {BLOCKS}")] = Field(
        default=64,
        description="Rows of M in one tile; also the size of the M blocks that the rounds walk over. Power of two.",
        json_schema_extra=TILE_CHOICES,
    )
    n: Annotated[TileSize, Says(A_TILE_SIZE, _BURST.format("an N"))] = Field(
        default=128,
        description="Elements of N in one tile row, contiguous in memory. Power of two; the tail of N is masked.",
        json_schema_extra=TILE_CHOICES,
    )


class MovementPoint(VerifyPoint):
    """One verification point of a vector kernel."""

    cores: Annotated[int, Says("a whole number of at least 1")] = Field(
        ge=1, description="Vector cores of each rank. Interleaved roles need at least 2."
    )


class HeadShape(Shape):
    """Sizes of the block that each rank sends to each rank: S rows, H heads, D elements of a head."""

    S: Extent = Field(description="Rows of the block that one rank sends to another.")
    H: Extent = Field(description="Heads of the block that one rank sends to another.")
    D: Extent = Field(description="Elements of one head, contiguous in memory.")


class HeadPoint(MovementPoint):
    """One verification point of a pattern over rows and heads."""

    shape: HeadShape = Field(description="Tensor sizes of this point.")


class AllGatherShape(Shape):
    """A is (M, N) on each rank, and C is (ranks * M, N)."""

    M: Extent = Field(description="Rows of A on each rank.")
    N: Extent = Field(description="Elements of a row, contiguous in memory.")


class AllGatherPoint(MovementPoint):
    """One verification point of an AllGather."""

    shape: AllGatherShape = Field(description="Tensor sizes of this point.")


class SumShape(Shape):
    """A is (M, N) on each rank, and so is the sum."""

    M: Extent = Field(description="Rows of A, the same number on every rank.")
    N: Extent = Field(description="Elements of a row, contiguous in memory.")


class SumPoint(MovementPoint):
    """One verification point of a ReduceScatter or AllReduce."""

    shape: SumShape = Field(description="Tensor sizes of this point.")


class Movement(SpecBase):
    """The fields of all vector kernels."""

    core_kind: ClassVar[Literal["vector", "AI"]] = "vector"

    flatten: Annotated[Literal["none", "s", "m", "auto"], Says("none, s, m or auto")] = Field(
        default="auto", description="Which dimensions are merged into one work index."
    )
    roles: Annotated[Roles, Says("interleaved or shared")] = Field(
        default="interleaved",
        description=(
            "Who produces and who consumes. interleaved: even cores produce, odd cores consume, at the same time. "
            "shared: every core produces and then consumes in each round (needs sync: barrier)."
        ),
    )
    verify: VerifyPoints[MovementPoint]


class HeadMovement(Movement):
    """The fields of patterns that exchange rows for heads."""

    tile: HeadTile = Field(default=HeadTile(), description="The piece of the tensor that one task moves.")
    flatten: Annotated[Literal["none", "s", "auto"], Says("none, s or auto")] = Field(
        default="auto",
        description=(
            "Work flattening. none: cores share the tiles of one S block at a time. s: S blocks are part of the work "
            "index too, so small H fills the cores (needs sync: signal). auto: merges S, then H, then D blocks until "
            "the cores of a role are filled, as far as the sync allows."
        ),
    )
    verify: VerifyPoints[HeadPoint]


class RowMovement(Movement):
    """The fields of patterns over the rows of a matrix."""

    tile: RowTile = Field(default=RowTile(), description="The piece of the tensor that one task moves.")
    flatten: Annotated[Literal["none", "m", "auto"], Says("none, m or auto")] = Field(
        default="auto",
        description=(
            "Work flattening. none: cores share the tiles of one M block at a time. m: M blocks are part of the work "
            "index too, so small N fills the cores (needs sync: signal). auto: merges M, then N blocks until the cores "
            "of a role are filled, as far as the sync allows."
        ),
    )


class ReverseAll2All(HeadMovement):
    """Reverse All2All: every rank sends each peer its rows of S, and gathers the heads of all ranks.

    A is (S * ranks, H, D), C is (S, H * ranks, D): `C_r[s, q * H + h, d] = A_q[r * S + s, h, d]` for rank r and every
    source rank q.
    """

    pattern: PatternName[Literal["reverse_all2all"]]


class All2All(HeadMovement):
    """All2All, the inverse of Reverse All2All: every rank sends each peer its heads, and gathers the rows of all ranks.

    A is (S, ranks * H, D), C is (ranks * S, H, D): `C_r[q * S + s, h, d] = A_q[s, r * H + h, d]` for rank r and every
    source rank q.
    """

    pattern: PatternName[Literal["all2all"]]


class AllGather(RowMovement):
    """AllGather: every rank gets the rows of all ranks.

    A is (M, N), C is (ranks * M, N): `C[q * M + m, n] = A_q[m, n]` on every rank.
    """

    pattern: PatternName[Literal["allgather"]]
    verify: VerifyPoints[AllGatherPoint]


class ReduceScatter(RowMovement, Reduction):
    """ReduceScatter: the sum over all ranks, of which each rank gets its rows.

    A is (M, N). Rank r gets rows from r * R to below min((r + 1) * R, M) of the sum, where R = ceil(M / ranks): the
    last ranks get fewer rows, or none.
    """

    pattern: PatternName[Literal["reduce_scatter"]]
    verify: VerifyPoints[SumPoint]


class AllReduce(RowMovement, Reduction):
    """AllReduce: the sum over all ranks, on every rank. A and C are (M, N)."""

    pattern: PatternName[Literal["allreduce"]]
    verify: VerifyPoints[SumPoint]
