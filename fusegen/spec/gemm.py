"""Specs of kernels that fuse a GEMM with the communication before or after it: mix kernels.

Notation: `A_q` and `B_q` are the inputs of rank q, `C_r` is the output of rank r. The bias is a row of N elements.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from fusegen.spec.fields import (
    A_TILE_SIZE,
    BLOCKS,
    COMM_ROWS,
    SOME_COMM_ROWS,
    TILE_CHOICES,
    CommRows,
    Dtype,
    Extent,
    PatternName,
    Reduction,
    Says,
    Shape,
    SpecBase,
    SpecModel,
    Swizzle,
    TileSize,
    VerifyPoint,
    VerifyPoints,
)

MAX_PVALUE: Final = 64
MAX_OFFSET: Final = 64


class GemmTile(SpecModel):
    """The piece of C that one cube core computes at a time, and the depth of one step of it."""

    m: Annotated[TileSize, Says(A_TILE_SIZE, BLOCKS)] = Field(
        default=128, description="Rows of C in one tile. Power of two.", json_schema_extra=TILE_CHOICES
    )
    n: Annotated[TileSize, Says(A_TILE_SIZE, BLOCKS)] = Field(
        default=256, description="Columns of C in one tile. Power of two.", json_schema_extra=TILE_CHOICES
    )
    k: Annotated[TileSize, Says(A_TILE_SIZE, BLOCKS)] = Field(
        default=256,
        description="Elements of K that one step multiplies and adds. Power of two; the tail of K is masked.",
        json_schema_extra=TILE_CHOICES,
    )


class CommTile(SpecModel):
    """The piece of a matrix that one communication task moves: rows of contiguous elements."""

    rows: Annotated[CommRows, Says(SOME_COMM_ROWS, BLOCKS)]
    columns: Annotated[TileSize, Says(A_TILE_SIZE, f"a row is one MTE burst, and {BLOCKS}")] = Field(
        default=256,
        description="Elements in one row of a communication tile, contiguous in memory. Power of two.",
        json_schema_extra=TILE_CHOICES,
    )


class GatherTile(CommTile):
    """The piece of A that one communication task moves."""

    rows: Annotated[CommRows, Says(SOME_COMM_ROWS, BLOCKS)] = Field(
        default=32,
        description="Rows of A in one communication tile. Power of two; divides tile.m.",
        json_schema_extra={"enum": list(COMM_ROWS)},
    )


class SumTile(CommTile):
    """The piece of C that one communication task moves and adds; it lies within one GEMM tile."""

    rows: Annotated[CommRows, Says(SOME_COMM_ROWS, BLOCKS)] = Field(
        default=8,
        description="Rows of C in one communication tile. Power of two; divides tile.m.",
        json_schema_extra={"enum": list(COMM_ROWS)},
    )


class TileSwizzle(SpecModel):
    """The order in which the cube cores of a rank compute the tiles of C (guide 1.4)."""

    order: Annotated[Literal["nz", "row_major"], Says("nz or row_major")] = Field(
        default="nz",
        description=(
            "nz: groups of tile columns, each walked down and the next one up, so operands in the L2 cache are used "
            "again. row_major: one row of tiles after the other."
        ),
    )
    offset: Annotated[int, Says(f"a whole number between 1 and {MAX_OFFSET}", "7 is the size used in the field")] = (
        Field(
            default=7,
            ge=1,
            le=MAX_OFFSET,
            description="Columns of tiles in one group of the nz order (needs order: nz).",
        )
    )


class GemmSwizzle(Swizzle):
    """The order of tiles, between ranks and within one."""

    gemm: TileSwizzle = Field(default=TileSwizzle(), description="The order of the tiles of C.")


class GemmPoint(VerifyPoint):
    """One verification point of a mix kernel."""

    cores: Annotated[int, Says("a whole number of at least 1")] = Field(
        ge=1, description="AI cores of each rank: each is one cube core and two vector cores."
    )


class GatherGemmShape(Shape):
    """A is (M, K) and B is (K, N) on each rank; C is (ranks * M, N)."""

    M: Extent = Field(description="Rows of A on one rank.")
    N: Extent = Field(description="Columns of B and C.")
    K: Extent = Field(description="Columns of A, rows of B.")


class GatherGemmPoint(GemmPoint):
    """One verification point of an AllGather and GEMM."""

    shape: GatherGemmShape = Field(description="Tensor sizes of this point.")


class SumGemmShape(Shape):
    """A is (M, K) and B is (K, N) on each rank; the sum of the products is (M, N)."""

    M: Extent = Field(description="Rows of A, the same number on every rank, and of the sum.")
    N: Extent = Field(description="Columns of B and C.")
    K: Extent = Field(description="Columns of A and rows of B on one rank: each rank has a part of K.")


class SumGemmPoint(GemmPoint):
    """One verification point of a GEMM and reduction."""

    shape: SumGemmShape = Field(description="Tensor sizes of this point.")


class Gemm(SpecBase):
    """The fields of all mix kernels."""

    core_kind: ClassVar[Literal["vector", "AI"]] = "AI"

    out_dtype: Annotated[Dtype | None, Says("bfloat16, float16 or float32")] = Field(
        default=None, description="Element type of C. Left out: the same as dtype. The accumulator is float32 anyway."
    )
    bias: Annotated[bool, Says("true or false")] = Field(
        default=False, description="Whether a bias of N elements is added to each row of C, once."
    )
    tile: GemmTile = Field(default=GemmTile(), description="The piece of C that one cube core computes at a time.")
    comm_tile: CommTile
    pvalue: Annotated[
        int, Says(f"a whole number between 1 and {MAX_PVALUE}", "more makes rounds longer and buffers larger")
    ] = Field(
        default=4,
        ge=1,
        le=MAX_PVALUE,
        description="GEMM tile rows of every rank in one communication round.",
    )
    swizzle: GemmSwizzle = Field(default=GemmSwizzle(), description="In which order tiles are worked on.")
    verify: VerifyPoints[GemmPoint]


class SumGemm(Gemm, Reduction):
    """The fields of patterns that add the products of all ranks."""

    comm_tile: SumTile = Field(
        default=SumTile(), description="What one communication task moves and adds: a part of a GEMM tile."
    )
    verify: VerifyPoints[SumGemmPoint]


class AllGatherGemm(Gemm):
    """AllGather and GEMM: C = allgather(A) @ B (+ bias), where A is (M, K) on each rank and C is (ranks * M, N)."""

    pattern: PatternName[Literal["allgather_gemm"]]
    comm_tile: GatherTile = Field(default=GatherTile(), description="What one communication task moves: rows of A.")
    verify: VerifyPoints[GatherGemmPoint]


class GemmReduceScatter(SumGemm):
    """GEMM and ReduceScatter: the sum over all ranks of A_q @ B_q (+ bias), of which each rank gets its rows.

    Rank r gets rows from r * R to below min((r + 1) * R, M), where R = ceil(M / ranks): the last ranks get fewer rows,
    or none.
    """

    pattern: PatternName[Literal["gemm_reduce_scatter"]]


class GemmAllReduce(SumGemm):
    """GEMM and AllReduce: the sum over all ranks of A_q @ B_q (+ bias), (M, N), on every rank."""

    pattern: PatternName[Literal["gemm_allreduce"]]
