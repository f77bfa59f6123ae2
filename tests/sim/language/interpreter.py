"""Triton's own interpreter in a process of its own, where the simulator's stand-ins cannot be in its way.

`python interpreter.py` answers one request after the other: a pickled (source, tensors, grid) on stdin, and on stdout
the pickled (tensors, element types recorded, error), where tensors are what torch.save makes of them. It runs `kernel`,
which the source defines, on the tensors.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import torch

Tensors = list[torch.Tensor]
PRELUDE = "import torch\nimport triton\nimport triton.language as tl\n\n\n"


class Interpreter:
    """The process; a context manager that ends it."""

    def __enter__(self) -> Interpreter:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TRITON_INTERPRET": "1"},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def run(self, source: str, tensors: Tensors, grid: tuple[int, ...] = (1,)) -> tuple[Tensors, list[str]]:
        """The tensors after a launch, and the types that `record` was called with; AssertionError if it failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((source, packed(tensors), grid), self._process.stdin)
        self._process.stdin.flush()
        try:
            after, types, error = pickle.load(self._process.stdout)
        except EOFError as error:
            raise AssertionError(f"the interpreter has ended: {self._process.wait()}\n{source}") from error
        assert not error, error
        return unpacked(after), types


def packed(tensors: Tensors) -> bytes:
    """Tensors as bytes: torch's pickles of unsigned types cannot be read."""
    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    return buffer.getvalue()


def unpacked(content: bytes) -> Tensors:
    """The tensors again."""
    tensors: Tensors = torch.load(io.BytesIO(content))
    return tensors


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until there are no more."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(sys.maxsize):
            try:
                source, tensors, grid = pickle.load(requests)
            except EOFError:
                return
            after = unpacked(tensors)
            types, error = answer(Path(folder) / f"kernel_{number}.py", source, after, grid)
            pickle.dump((packed(after), types, error), replies)
            replies.flush()


def answer(path: Path, source: str, tensors: Tensors, grid: tuple[int, ...]) -> tuple[list[str], str]:
    """Launch the kernel on the tensors; returns the types that it records, and the error."""
    from triton.runtime.errors import InterpreterError

    path.write_text(PRELUDE + source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    types: list[str] = []
    module.record = lambda value: types.append(_TYPES.get(value.dtype.scalar.name, value.dtype.scalar.name))
    try:
        spec.loader.exec_module(module)
        module.kernel[grid](*tensors)
    except (InterpreterError, ValueError, TypeError) as error:
        return [], f"{type(error).__name__}: {error}"
    return types, ""


_TYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


def adapt_to_numpy() -> None:
    """numpy 2.4 converts no array with an axis to a Python number, and the interpreter keeps scalars in such arrays."""
    import triton.language as tl
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any) -> None:
        patch(tensor)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    interpreter._patch_lang_tensor = patched
    patched(tl.tensor)


if __name__ == "__main__":
    adapt_to_numpy()
    output = sys.stdout.buffer
    with contextlib.redirect_stdout(sys.stderr):
        serve(sys.stdin.buffer, output)
