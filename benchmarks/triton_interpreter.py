"""A generated Reverse All2All kernel on Triton's own interpreter, with the least that makes it run on many cores.

Triton interprets one program after the other. Here every program is a greenlet that stops at a dl.wait whose slot does
not have its value yet, and the distributed builtins are small functions on addresses; nothing is checked but that all
programs end and that the result is right. `InterpreterProcess` keeps it in a process of its own: it needs
TRITON_INTERPRET set before triton is imported, and modules in the place of those that exist on devices only.
"""

from __future__ import annotations

import ctypes
import inspect
import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final, Self

from greenlet import greenlet

KERNEL: Final = "reverse_all2all_kernel"


class InterpreterProcess:
    """A process that interprets kernels; a context manager that ends it."""

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.join()

    def seconds(self, module: Path, *, ranks: int, cores: int, shape: Mapping[str, int]) -> float:
        """Processor seconds that the programs of one launch take on all ranks.

        Raises RuntimeError when programs wait for ever, an element is wrong, or the process ends.
        """
        self._connection.send((module, ranks, cores, dict(shape)))
        try:
            answer = self._connection.recv()
        except EOFError as error:
            raise RuntimeError("the process of the interpreter has ended: see its traceback above") from error
        if isinstance(answer, str):
            raise RuntimeError(f"{module.name} on Triton's interpreter: {answer}")
        return float(answer)


def _serve(connection: Connection) -> None:
    """Answer requests until there are no more."""
    os.environ["TRITON_INTERPRET"] = "1"
    machine = InterpretedRanks()
    sys.modules.update(_device_modules(machine))
    _adapt_to_numpy()
    while True:
        try:
            module, ranks, cores, shape = connection.recv()
        except EOFError:
            return
        try:
            answer: float | str = _launched(machine, module, ranks, cores, shape)
        except RuntimeError as error:
            answer = str(error)
        connection.send(answer)


class InterpretedRanks:
    """The programs of all ranks, who waits for which slot, and symmetric memory.

    `heap` has the first address of each symmetric allocation, on rank 0, with the bytes from there to the next rank.
    """

    def __init__(self) -> None:
        self.rank = 0
        self.ranks = 0
        self.heap: dict[int, int] = {}
        self._hub = greenlet.getcurrent()
        self._runnable: deque[tuple[greenlet, int, int]] = deque()
        self._waiting: dict[int, list[tuple[greenlet, int, int]]] = {}
        self._core = 0

    def run(self, programs: list[tuple[int, int, Callable[[], None]]], at_core: Callable[[int], None]) -> None:
        """Run programs, each with its rank and core, until all have ended; `at_core` is told who goes on."""
        self._hub = greenlet.getcurrent()
        self._runnable.extend((greenlet(body, self._hub), rank, core) for rank, core, body in programs)
        while self._runnable:
            program, self.rank, self._core = self._runnable.popleft()
            at_core(self._core)
            program.switch()
        stuck = sum(map(len, self._waiting.values()))
        self._waiting.clear()
        if stuck:
            raise RuntimeError(f"expected all programs to end, got {stuck} that wait for ever")

    def wait(self, pointer: Any, count: Any, scope: str, semantic: str, waitValue: Any = 1) -> Any:
        """dl.wait for one slot."""
        address, value = number(pointer), number(waitValue)
        while ctypes.c_int64.from_address(address).value != value:
            entry = (greenlet.getcurrent(), self.rank, self._core)
            self._waiting.setdefault(address, []).append(entry)
            self._hub.switch()
        return waitValue

    def notify(self, pointer: Any, rank: Any, signal: Any = 1) -> None:
        """dl.notify."""
        address = self._on(number(pointer), number(rank))
        ctypes.c_int64.from_address(address).value = number(signal)
        self._runnable.extend(self._waiting.pop(address, ()))

    def symm_at(self, pointer: Any, rank: Any) -> Any:
        """dl.symm_at."""
        address = number(pointer)
        return pointer.__class__(_handle(pointer.handle, self._on(address, number(rank))), pointer.type)

    def _on(self, address: int, rank: int) -> int:
        """The address on another rank of an own symmetric address."""
        for first, stride in self.heap.items():
            if first + self.rank * stride <= address < first + (self.rank + 1) * stride:
                return address + (rank - self.rank) * stride
        raise RuntimeError("expected an address in symmetric memory")


def number(value: Any) -> int:
    """A scalar of the interpreter as an int."""
    return value if isinstance(value, int) else int(value.handle.data.item())


def _handle(handle: Any, address: int) -> Any:
    import numpy as np

    return handle.__class__(np.array([address], np.uint64), handle.dtype)


def _device_modules(machine: InterpretedRanks) -> dict[str, ModuleType]:
    """Modules in the place of those that exist on devices only, as far as the kernel uses them."""
    tables: dict[str, dict[str, Any]] = {
        "shmem": {},
        "torch_npu": {},
        "triton.backends.ascend.driver": {"NPUUtils": None},
        "triton_dist": {},
        "triton_dist.language": {
            "wait": machine.wait,
            "notify": machine.notify,
            "symm_at": machine.symm_at,
            "consume_token": lambda pointer, token: pointer,
        },
        "triton_dist.language.extra": {"libshmem_device": SimpleNamespace(fence=lambda: None)},
    }
    modules = {}
    for name, table in tables.items():
        modules[name] = module = ModuleType(name)
        vars(module).update(table)
    modules["triton_dist"].__dict__["language"] = modules["triton_dist.language"]
    return modules


def _adapt_to_numpy() -> None:
    """numpy 2.4 converts no array with an axis to a Python number, and the interpreter keeps scalars in such arrays."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any) -> None:
        patch(tensor)
        tensor.__index__ = number

    interpreter._patch_lang_tensor = patched


class _Capture:
    """Takes the arguments of a launch in the place of the kernel."""

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return self._take

    def _take(self, *values: Any, multibuffer: bool, **constants: Any) -> None:
        self.values, self.constants = values, constants


def _launched(machine: InterpretedRanks, path: Path, ranks: int, cores: int, shape: Mapping[str, int]) -> float:
    """Launch the module's kernel on every rank, and compare what comes out with the definition of Reverse All2All."""
    import torch

    module = _loaded(path)
    kernel = getattr(module, KERNEL)
    S, H, D = shape["S"], shape["H"], shape["D"]
    elements = module.symmetric_elements(S, H, D, ranks=ranks, cores=cores)
    symmetric = {
        "peer": torch.empty((ranks, elements["peer"]), dtype=module.DTYPE),
        "signal": torch.zeros((ranks, elements["signal"]), dtype=torch.int64),
    }
    machine.ranks = ranks
    machine.heap = {each.data_ptr(): each.stride(0) * each.element_size() for each in symmetric.values()}
    a = torch.randn((ranks, ranks * S, H, D), generator=torch.Generator().manual_seed(0)).to(module.DTYPE)
    c = torch.full((ranks, S, ranks * H, D), float("nan"), dtype=module.DTYPE)
    capture = _Capture()
    setattr(module, KERNEL, capture)
    programs = []
    for rank in range(ranks):
        own = {name: tensor[rank] for name, tensor in symmetric.items()}
        workspace = SimpleNamespace(rank=rank, ranks=ranks, shape=(S, H, D), cores=cores, launches=0, **own)
        module.launch(a[rank], workspace, c=c[rank])
        body, at_core = _program(kernel, capture.values, capture.constants, cores)
        programs += [(rank, core, body) for core in range(cores)]
    started = time.process_time()
    machine.run(programs, at_core)
    seconds = time.process_time() - started
    blocks = a.view(ranks, ranks, S, H, D)  # by source rank and target rank
    expected = blocks.permute(1, 2, 0, 3, 4).reshape(c.shape)
    if not torch.equal(c, expected):
        raise RuntimeError("expected exact values, got others")
    return seconds


def _program(
    kernel: Any, values: tuple[Any, ...], constants: Mapping[str, Any], cores: int
) -> tuple[Callable[[], None], Callable[[int], None]]:
    """What a program runs, and what tells the interpreter which one runs: the work of Triton's GridExecutor."""
    from triton.runtime import interpreter

    function = kernel.rewrite()
    executor = interpreter.GridExecutor(function, kernel.arg_names, (cores,))
    interpreter._patch_lang(function)
    given = inspect.getcallargs(function, *values, **constants)
    arguments = {
        name: value if name in executor.constexprs else interpreter._implicit_cvt(value)
        for name, value in given.items()
    }
    builder = interpreter.interpreter_builder
    builder.set_grid_dim(cores, 1, 1)
    return lambda: function(**arguments), lambda core: builder.set_grid_idx(core, 0, 0)


def _loaded(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
