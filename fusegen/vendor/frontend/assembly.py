"""Reads a module in the LLVM dialect from stdin and writes assembly for this machine to stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from triton._C.libtriton import ir, llvm


def main() -> None:
    """No arguments: the module is read from stdin."""
    context = ir.context()
    ir.load_dialects(context)
    with TemporaryDirectory(prefix="fusegen-") as folder:
        path = Path(folder) / "kernel.mlir"
        path.write_text(sys.stdin.read(), encoding="utf-8")
        module = ir.parse_mlir_module(str(path), context)
        module.context = context
        llvm.init_targets()
        lowered = llvm.to_module(module, llvm.context())
    llvm.optimize_module(lowered, llvm.OPTIMIZE_O3)
    sys.stdout.write(llvm.translate_to_asm(str(lowered), "x86_64-unknown-linux-gnu", "", "", [], True, False))


if __name__ == "__main__":
    main()
