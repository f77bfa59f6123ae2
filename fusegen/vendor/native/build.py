"""Second step: from calls in dialects of upstream MLIR to a shared library for this machine.

The vendor's pass driver has the upstream passes, its triton wheel has LLVM, and gcc assembles what they make, with the
emulator and an entry that unpacks arguments.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fusegen.targets import target
from fusegen.vendor.mlir import Operation, function_types
from fusegen.vendor.native.lowering import with_calls
from fusegen.vendor.tools import Toolchain, VendorToolsMissing, run

EMULATOR: Final = Path(__file__).with_name("emulator.c")
PASSES: Final = (
    "--convert-elementwise-to-linalg",
    "--empty-tensor-to-alloc-tensor",
    "--one-shot-bufferize=allow-return-allocs-from-loops",
    "--convert-bufferization-to-memref",
    "--annotation-lowering",
    "--expand-strided-metadata",
    "--convert-linalg-to-loops",
    "--canonicalize",
    "--convert-scf-to-cf",
    "--lower-affine",
    "--arith-expand",
    "--convert-vector-to-llvm",
    "--convert-math-to-llvm",
    "--finalize-memref-to-llvm",
    "--convert-func-to-llvm",
    "--convert-cf-to-llvm",
    "--convert-index-to-llvm",
    "--convert-arith-to-llvm",
    "--reconcile-unrealized-casts",
)
_DRIVER_TARGET: Final = target("Ascend910B3")
"""Upstream passes are the same in the drivers of both families."""
_C_TYPES: Final = {"i32": "int32_t", "i64": "int64_t"}


def find_gcc() -> Path:
    """The C compiler. Raises VendorToolsMissing, with what to install, where there is none."""
    found = shutil.which("gcc")
    if found is None:
        raise VendorToolsMissing("gcc is not installed: --run builds kernels with it: apt-get install gcc libc6-dev")
    return Path(found)


def build_library(distributed: Operation, kernel: str, library: Path, tools: Toolchain) -> None:
    """Write the shared library of a kernel, whose C functions are those of `emulator.c` and `run(arguments)`.

    `arguments` are pointers: to a descriptor for each memory, to a number for each scalar. Raises ToolFailed.
    """
    gcc = find_gcc()
    module = with_calls(distributed)
    llvm = run(tools.optimizer(_DRIVER_TARGET), ["-", *PASSES], str(module))
    assembly = run(Path(sys.executable), ["-m", "fusegen.vendor.frontend.assembly"], llvm)
    code, entry = library.with_suffix(".s"), library.with_suffix(".c")
    code.write_text(assembly, encoding="utf-8")
    entry.write_text(_entry(kernel, argument_types(module)), encoding="utf-8")
    options = ["-O2", "-shared", "-fPIC", "-Wl,--wrap=malloc", "-Wl,-z,defs"]
    run(gcc, [*options, "-o", str(library), str(code), str(entry), str(EMULATOR), "-lm"])


def argument_types(module: Operation) -> tuple[str, ...]:
    """MLIR types of the kernel's arguments."""
    (kernel,) = (op for op in module.body if op.name == "func.func" and op.regions[0].blocks)
    return function_types(kernel)[0]


def _entry(kernel: str, types: Sequence[str]) -> str:
    declared = ", ".join(_C_TYPES.get(kind, "void *") for kind in types)
    passed = ", ".join(
        f"*({_C_TYPES[kind]} *)arguments[{index}]" if kind in _C_TYPES else f"arguments[{index}]"
        for index, kind in enumerate(types)
    )
    return (
        "#include <stdint.h>\n"
        f"void _mlir_ciface_{kernel}({declared});\n"
        "int emulator_run(void (*kernel)(void **), void **arguments);\n"
        f"static void call(void **arguments) {{ _mlir_ciface_{kernel}({passed}); }}\n"
        "int run(void **arguments) { return emulator_run(call, arguments); }\n"
    )
