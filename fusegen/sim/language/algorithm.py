"""triton_dist.language.extra.ascend.algorithm: the swizzles of guide 1.4, as published.

Kernels call these functions as they call their own: written in Triton, over its integers.
"""

from __future__ import annotations

from typing import Any

from fusegen.sim.language.functions import FUNCTIONS

cdiv, minimum = FUNCTIONS["cdiv"], FUNCTIONS["minimum"]


def gemm_swizzle2d_Nz(
    iter_id: Any, rows: Any, cols: Any, tile_rows: Any, tile_cols: Any, swizzle_offset: Any = 7
) -> Any:
    """Row and column of GEMM tile `iter_id` of a matrix of rows x cols elements.

    Columns of tiles come in groups of `swizzle_offset`; odd groups go from the last row to the first.
    """
    tiles_row = cdiv(rows, tile_rows)
    tiles_col = cdiv(cols, tile_cols)
    group = iter_id // (swizzle_offset * tiles_row)
    inside = iter_id % (swizzle_offset * tiles_row)
    width = minimum(swizzle_offset, tiles_col - group * swizzle_offset)
    row = inside // width
    if group % 2 == 1:
        row = tiles_row - row - 1
    return row, group * swizzle_offset + inside % width


def dist_swizzle2d_Nz(
    iter_id: Any, rank_size: Any, rows: Any, cols: Any, tile_rows: Any, tile_cols: Any, comm_npu_split: Any = 1
) -> Any:
    """Row and column of a communication tile, its rank, and its size in elements: row, col, rank, row_size, col_size.

    All ranks of a tile come before the next tile. The stride permutation is taken modulo the stride, as published: with
    a `comm_npu_split` above 1 some ranks come several times and others never.
    """
    tiles_col = cdiv(cols, tile_cols)
    tile = iter_id // rank_size
    stride = rank_size // comm_npu_split
    rank = iter_id % rank_size
    rank = (rank * stride) % stride + (rank * stride) // rank_size
    rank = (rank + tile) % rank_size
    row = tile // tiles_col
    col = tile % tiles_col
    return row, col, rank, minimum(tile_rows, rows - row * tile_rows), minimum(tile_cols, cols - col * tile_cols)
