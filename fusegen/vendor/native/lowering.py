"""First step: a kernel with distributed operations as one that calls the emulator, in dialects of upstream MLIR.

Every distributed operation becomes a call of the C interface that the vendor's library has, after one that says on
which line it stands. An `al.scope` becomes a condition on the type of the core that runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from fusegen.vendor.bridge.family950 import CORE_KEY
from fusegen.vendor.bridge.raising import CUSTOM
from fusegen.vendor.bridge.scopes import SCOPE
from fusegen.vendor.mlir import Block, Operation, Region, derived, rewrite

AT: Final = "emulator_at"
IS_CUBE: Final = "emulator_is_cube"
SUB_BLOCK: Final = "emulator_sub_block"
BLOCK_SYNC: Final = {
    "hivm.hir.sync_block_set": "emulator_sync_block_set",
    "hivm.hir.sync_block_wait": "emulator_sync_block_wait",
}
"""What the emulator has besides the functions of the library: (event, 1 if the core that calls it is an AIC)."""
_ITERATORS: Final = ("parallel", "reduction", "parallel")
"""Of the loops over m, k and n."""
_FOREIGN: Final = ("hivm.", "hacc.", "input_precision", "mix_mode", "tt.")
"""Attributes that say something to the vendor's compiler only."""
_KERNEL_KEPT: Final = ("function_type", "sym_name")


def with_calls(module: Operation) -> Operation:
    """The module with calls and conditions; the kernel has a C interface."""
    lowering = _Lowering()
    (kernel,) = (op for op in module.body if op.name == "func.func")
    kernel = rewrite(kernel, lowering)
    kernel = replace(
        kernel,
        properties={name: kernel.properties[name] for name in _KERNEL_KEPT},
        attributes={"llvm.emit_c_interface": ""},
    )
    operations = (*lowering.declarations.values(), kernel)
    return Operation("builtin.module", regions=(Region((Block("", (), operations),)),))


class _Lowering:
    """Rewrites one operation at a time and collects the functions that are called."""

    def __init__(self) -> None:
        self.declarations: dict[str, Operation] = {}
        self._values = 0

    def __call__(self, op: Operation) -> Iterator[Operation]:
        if op.name == CUSTOM:
            yield from self._library_call(op)
        elif op.name == SCOPE:
            yield from self._condition(op)
        elif op.name in BLOCK_SYNC:
            yield from self._block_sync(op)
        elif op.name == "hivm.hir.get_sub_block_idx":
            yield self._call(SUB_BLOCK, op.result, (), (), ("i64",))
        elif op.name == "linalg.matmul":
            yield from _product_by_rows(op)
        else:
            yield replace(op, attributes=_own(op.attributes))

    def _library_call(self, op: Operation) -> Iterator[Operation]:
        operands, types = list(op.operands), list(op.operand_types)
        for index, kind in enumerate(types):
            if kind.startswith("memref<"):
                cast, plain = f"%operand{index}_of_{self._next()}", _plain(kind)
                yield Operation("memref.cast", cast, (operands[index],), (kind,), (plain,))
                operands[index], types[index] = cast, plain
        yield from self._at(op.line)
        symbol = op.attributes["symbol"].strip('"')
        yield self._call(symbol, op.result, tuple(operands), tuple(types), op.result_types, is_library=True)

    def _block_sync(self, op: Operation) -> Iterator[Operation]:
        event, core = f"%event{self._next()}", f"%core{self._next()}"
        yield _constant(event, int(op.properties["static_flag_id"].split()[0]))
        yield _constant(core, int(_core(op.properties["tcore_type"]) == "CUBE"))
        yield from self._at(op.line)
        yield self._call(BLOCK_SYNC[op.name], "", (event, core), ("i32", "i32"), ())

    def _condition(self, op: Operation) -> Iterator[Operation]:
        """The scope as an if: an AIC is of one type, both AIVs of its AI core are of the other."""
        number = self._next()
        got, wanted, agrees = f"%is_cube{number}", f"%cube{number}", f"%in_scope{number}"
        yield self._call(IS_CUBE, got, (), (), ("i32",))
        yield _constant(wanted, int(_core(op.attributes[CORE_KEY]) == "CUBE"))
        equal = {"predicate": "0 : i64"}
        yield Operation("arith.cmpi", agrees, (got, wanted), ("i32", "i32"), ("i1",), properties=equal)
        (block,) = op.regions[0].blocks
        body = replace(block, operations=(*block.operations[:-1], Operation("scf.yield")))
        yield Operation("scf.if", "", (agrees,), ("i1",), regions=(Region((body,)), Region(())))

    def _at(self, line: int) -> Iterator[Operation]:
        value = f"%line{self._next()}"
        yield _constant(value, line)
        yield self._call(AT, "", (value,), ("i32",), ())

    def _call(
        self,
        symbol: str,
        result: str,
        operands: tuple[str, ...],
        types: tuple[str, ...],
        result_types: tuple[str, ...],
        *,
        is_library: bool = False,
    ) -> Operation:
        kind = f"({', '.join(types)}) -> {result_types[0] if result_types else '()'}"
        self.declarations[symbol] = Operation(
            "func.func",
            properties={"function_type": kind, "sym_name": f'"{symbol}"', "sym_visibility": '"private"'},
            attributes={"llvm.emit_c_interface": ""} if is_library else {},
            regions=(Region(()),),
        )
        return Operation("func.call", result, operands, types, result_types, properties={"callee": f"@{symbol}"})

    def _next(self) -> int:
        self._values += 1
        return self._values


def _product_by_rows(op: Operation) -> Iterator[Operation]:
    """A product of tiles with the columns in the innermost loop, which has them in one row of each tile.

    The order of the sums stays. Tiles of 16 bits are converted once, and not for each product; no bit changes.
    """
    operands, types = list(op.operands), list(op.operand_types)
    for index in (0, 1):
        wide = re.sub(r"b?f16>$", "f32>", types[index])
        if wide != types[index]:
            value = derived(op.result, f"wide{index}")
            yield Operation("arith.extf", value, (operands[index],), (types[index],), (wide,))
            operands[index], types[index] = value, wide
    yield Operation(
        "linalg.generic",
        op.result,
        tuple(operands),
        tuple(types),
        op.result_types,
        properties={
            "indexing_maps": f"[{', '.join(_map(axes) for axes in ('m, k', 'k, n', 'm, n'))}]",
            "iterator_types": f"[{', '.join(f'#linalg.iterator_type<{kind}>' for kind in _ITERATORS)}]",
            "operandSegmentSizes": "array<i32: 2, 1>",
        },
        regions=_product(),
    )


def _map(axes: str) -> str:
    return f"affine_map<(m, k, n) -> ({axes})>"


def _product() -> tuple[Region, ...]:
    arguments = (("%product_a", "f32"), ("%product_b", "f32"), ("%product_c", "f32"))
    fast = {"fastmath": "#arith.fastmath<none>"}
    names = [name for name, _ in arguments]
    pair = ("f32", "f32")
    operations = (
        Operation("arith.mulf", "%product", (names[0], names[1]), pair, ("f32",), properties=fast),
        Operation("arith.addf", "%product_sum", (names[2], "%product"), pair, ("f32",), properties=fast),
        Operation("linalg.yield", "", ("%product_sum",), ("f32",)),
    )
    return (Region((Block("^bb0", arguments, operations),)),)


def _plain(kind: str) -> str:
    """Memory of one axis as the C interface of the library takes it."""
    element = re.sub(r"^memref<(?:[?\d]+x)*", "", kind).partition(",")[0].rstrip(">")
    return f"memref<?x{element}, strided<[?], offset: ?>>"


def _core(text: str) -> str:
    return text.partition("<")[2].rstrip(">")


def _constant(name: str, value: int) -> Operation:
    return Operation("arith.constant", name, result_types=("i32",), properties={"value": f"{value} : i32"})


def _own(attributes: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in attributes.items() if not key.startswith(_FOREIGN)}
