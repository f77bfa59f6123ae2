"""Layouts: offsets are a bijection onto the region, whatever the extents."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusegen.plan.expr import KERNEL, Const, Sym, cdiv, evaluate, text
from fusegen.plan.layout import Axis, Layout

PEER = Layout(
    (
        Axis("ring", Sym("BUFFER_NUM")),
        Axis("row", Sym("TILE_S")),
        Axis("head", Sym("ranks") * Sym("H")),
        Axis("d", Sym("D")),
    ),
    stride_names=(("ring", "peer_block"), ("row", "peer_row")),
)


@given(st.tuples(*(st.integers(1, 4) for _ in range(4))))
def test_offsets_cover_the_region_once(extents: tuple[int, ...]) -> None:
    layout = Layout(tuple(Axis(f"x{i}", Const(extent)) for i, extent in enumerate(extents)))
    offsets = []
    for position in product(*(range(extent) for extent in extents)):
        terms = layout.offset({f"x{i}": Const(c) for i, c in enumerate(position)})
        offsets.append(sum(evaluate(coordinate * stride, {}) for coordinate, stride in terms))
    assert offsets == list(range(evaluate(layout.size(), {})))


def test_named_strides_build_on_each_other() -> None:
    assert [(name, text(value, KERNEL)) for name, value in PEER.stride_definitions()] == [
        ("peer_row", "ranks * H * D"),
        ("peer_block", "TILE_S * peer_row"),
    ]


def test_every_layout_is_dense_for_every_shape() -> None:
    assert PEER.is_dense()
    assert Layout((Axis("tile", Sym("H") * cdiv(Sym("D"), Sym("TILE_D"))),)).is_dense()


def test_a_stride_that_the_kernel_defines_wrongly_is_not_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = (("peer_row", Sym("H") * Sym("D")), ("peer_block", Sym("TILE_S") * Sym("peer_row")))
    monkeypatch.setattr(Layout, "stride_definitions", lambda layout: wrong)
    assert not PEER.is_dense()


def test_a_missing_coordinate_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one coordinate for each axis, got a mismatch on \['d', 'head'\]"):
        PEER.offset({"ring": Const(0), "row": Const(0)})
