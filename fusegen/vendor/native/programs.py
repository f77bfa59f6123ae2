"""Third step: lowered kernels on the simulator's machine, in the place of the kernels' text.

Every program of every rank is a fibre of one thread. It runs until it calls the emulator; that is where the machine
lets others go on, and where it knows the line. What the call does is what the simulator's language does.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import json
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from greenlet import GreenletExit

from fusegen.sim import dtypes
from fusegen.sim.actors import Actor
from fusegen.sim.findings import Found
from fusegen.sim.host.programs import KernelProgram
from fusegen.sim.language.device import DeviceLanguage
from fusegen.sim.machine import Machine
from fusegen.sim.memory import Memory, Pointer

Constants = Mapping[str, int | bool]
_MACHINE: Final = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64)
)
TRACE_BYTES: Final = 128
_SLOT_TYPES: Final = {4: dtypes.int32, 8: dtypes.int64}
_INTEGERS: Final = {"i32": ctypes.c_int32, "i64": ctypes.c_int64}


@dataclass(frozen=True, slots=True)
class Library:
    """A kernel built for one variant: the constants by which it differs, and its shared library."""

    variant: Constants
    path: Path


class _Descriptor(ctypes.Structure):
    """memref<?xT>, as the C interface passes it."""

    _fields_ = (
        ("allocated", ctypes.c_void_p),
        ("aligned", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("stride", ctypes.c_int64),
    )


class NativePrograms:
    """Programs of the kernel in `module`, which was built as `libraries`.

    `parameters` are the types of the kernel's parameters that are no constants in all variants. `trace` is the file
    that knows, should the process end in native code, which program ran, and from which line on.
    """

    def __init__(
        self,
        machine: Machine,
        language: DeviceLanguage,
        *,
        module: Path,
        parameters: Mapping[str, str],
        libraries: Sequence[Library],
        is_mix: bool,
        trace: int,
    ) -> None:
        self._machine = machine
        self._module = str(module)
        self._first_lines = _first_lines(module.read_text(encoding="utf-8"))
        self._parameters = parameters
        self._libraries = [(each.variant, ctypes.PyDLL(str(each.path))) for each in libraries]
        self._is_mix = is_mix
        self._trace = trace
        self._memories: dict[int, Memory] = {}
        self._starts: list[int] = []
        self._raised: dict[Actor, BaseException] = {}
        self._functions = self._language(language)
        self._answer = _MACHINE(self._answers)  # kept as long as the libraries may call it
        for _, library in self._libraries:
            library.emulator_attach(self._answer)

    def helper(self, function: FunctionType) -> Callable[..., Any]:
        """What kernels call is part of them."""
        raise NotImplementedError(function.__name__)

    def kernel(self, function: FunctionType) -> KernelProgram:
        """The library of the kernel, whichever fits the constants of the launch."""
        names = tuple(inspect.signature(function).parameters)
        run = partial(self._run, names)
        return KernelProgram(run, ("AIC", "AIV", "AIV")) if self._is_mix else KernelProgram(run)

    def _run(self, names: tuple[str, ...], *values: Any) -> None:
        """Run the program of the current actor."""
        actor = self._machine.current
        bound = dict(zip(names, values, strict=True))
        variant, library = self._library(bound)
        passed: list[Any] = [_Descriptor(stride=1), _Descriptor(stride=1)]  # of workspaces that no kernel uses
        for name, kind in self._parameters.items():
            if name not in variant:
                passed.append(self._descriptor(bound[name]) if kind.startswith("*") else _INTEGERS[kind](bound[name]))
        grid = actor.kernel.grid if actor.kernel is not None else ()
        passed += map(ctypes.c_int32, (*grid, *actor.position))
        arguments = (ctypes.c_void_p * len(passed))(*map(ctypes.addressof, passed))
        self._goes_on(actor, 0)
        if library.run(arguments):
            raise self._raised.pop(actor)

    def _goes_on(self, actor: Actor, line: int) -> None:
        os.pwrite(self._trace, json.dumps({"program": str(actor.name), "line": line}).encode().ljust(TRACE_BYTES), 0)

    def _library(self, bound: Mapping[str, Any]) -> tuple[Constants, ctypes.PyDLL]:
        for variant, library in self._libraries:
            if all(bound[name] == value for name, value in variant.items()):
                return variant, library
        varying = {name: bound[name] for variant, _ in self._libraries for name in variant}
        raise ValueError(f"expected constants of one of the variants in the manifest, got {varying}")

    def _descriptor(self, pointer: Pointer) -> _Descriptor:
        """The memory from the pointer on; it is known from now on, with that of the other ranks."""
        for memory in pointer.memory.peers or (pointer.memory,):
            start = _start(memory)
            if start not in self._memories:
                self._memories[start] = memory
                self._starts = sorted(self._memories)
        size = pointer.element.itemsize
        first = _start(pointer.memory) + pointer.address()
        return _Descriptor(first, first, 0, (pointer.memory.bytes.size - pointer.address()) // size, 1)

    def _language(self, language: DeviceLanguage) -> dict[str, Callable[..., Any]]:
        """What the emulator asks for, by name: a function that takes its caller and four integers."""
        shmem, cann = language.shmem_device(), language.cann_extension()
        core_types = {0: "vector", 1: "cube"}

        return {
            "is_cube": lambda call, *_: self._machine.current.name.kind == "AIC",
            "sub_block": lambda call, *_: call(cann["sub_vec_id"]),
            "my_pe": lambda call, *_: call(shmem["my_pe"]),
            "n_pes": lambda call, *_: call(shmem["n_pes"]),
            "fence": lambda call, *_: call(shmem["fence"]),
            "barrier_all": lambda call, *_: call(shmem["barrier_all"]),
            "barrier_all_vec": lambda call, *_: call(shmem["barrier_all_vec"]),
            "sync_block_set": lambda call, event, sender, *_: call(
                cann["sync_block_set"], core_types[sender], core_types[1 - sender], event
            ),
            "sync_block_wait": lambda call, event, receiver, *_: call(
                cann["sync_block_wait"], core_types[1 - receiver], core_types[receiver], event
            ),
            "wait": lambda call, address, size, count, value: call(
                language.wait, self._pointer(address, _SLOT_TYPES[size]), count, "sys", "acquire", value
            ),
            "notify": lambda call, address, value, peer, _: call(
                language.notify, self._pointer(address, dtypes.int64), peer, value
            ),
            "symm_at": lambda call, address, peer, *_: _address(
                call(language.symm_at, self._pointer(address, dtypes.uint8), peer)
            ),
            "putmem": lambda call, to, source, size, peer: call(
                language.putmem, self._pointer(to, dtypes.uint8), self._pointer(source, dtypes.uint8), size, peer
            ),
        }

    def _pointer(self, address: int, element: dtypes.DType) -> Pointer:
        """The pointer at an address. OutOfBounds where no argument of a launch has memory."""
        position = bisect_right(self._starts, address) - 1
        memory = self._memories[self._starts[max(position, 0)]]
        return Pointer(memory, element, (address - _start(memory)) // element.itemsize, memory.name)

    def _answers(self, name: bytes, line: int, operands: Any, result: Any) -> int:
        """What the emulator calls. What is raised, GreenletExit at the end of the machine too, `_run` raises again.

        It must not cross the frames of the kernel: ctypes would drop it.
        """
        function = self._functions[name.decode()]
        actor = self._machine.current
        line = self._first_lines.get(line, line)
        try:
            answer = function(_caller(self._module, line), *operands[:4])
        except (Exception, Found, GreenletExit) as raised:
            self._raised[actor] = raised
            return 1
        result[0] = answer if isinstance(answer, int) else 0
        self._goes_on(actor, line)
        return 0


@cache
def _caller(file: str, line: int) -> Callable[..., Any]:
    """A function that calls what it is given from that line: frames are how the machine knows where a program is."""
    call = lambda function, *operands: function(*operands)  # noqa: E731  one line, so that all of it is that line
    return FunctionType(call.__code__.replace(co_filename=file, co_firstlineno=line), {}, call.__name__)


def _first_lines(source: str) -> dict[int, int]:
    """For each line of a simple statement its first one: an operation has the line of its last operand."""
    simple = (ast.Assign, ast.AugAssign, ast.Expr)
    statements = (node for node in ast.walk(ast.parse(source)) if isinstance(node, simple))
    return {
        line: node.lineno for node in statements for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _start(memory: Memory) -> int:
    return int(memory.bytes.ctypes.data)


def _address(pointer: Pointer) -> int:
    return _start(pointer.memory) + pointer.address()
