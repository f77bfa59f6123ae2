"""triton: kernels and their launch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from types import FunctionType
from typing import Any, Final

import numpy as np
import torch

from fusegen.sim import dtypes
from fusegen.sim.errors import Unsupported
from fusegen.sim.host.memories import Memories
from fusegen.sim.host.process import Hosts
from fusegen.sim.host.programs import KernelProgram, Programs
from fusegen.sim.host.tensors import is_on_device
from fusegen.sim.host.tuning import Config, GridLaunch, autotune, heuristics
from fusegen.sim.integers import scalar
from fusegen.sim.memory import Pointer
from fusegen.sim.tiles import Tile

COMPILER_OPTIONS: Final = frozenset(
    {
        "debug",
        "enable_auto_bind_sub_block",
        "enable_fp_fusion",
        "enable_hivm_auto_cv_balance",
        "enable_linearize",
        "enable_nd2nz_on_vector",
        "enable_select_analysis",
        "limit_auto_multi_buffer_of_local_buffer",
        "limit_auto_multi_buffer_only_for_local_buffer",
        "multibuffer",
        "num_ctas",
        "num_stages",
        "num_warps",
        "optimize_epilogue",
        "set_workspace_multibuffer",
        "sync_solver",
        "tile_mix_cube_loop",
        "tile_mix_vector_loop",
        "unit_flag",
    }
)
"""Launch options that guide the compiler and change no result."""


class Triton:
    """The triton module of one machine."""

    def __init__(self, programs: Programs, hosts: Hosts, memories: Memories) -> None:
        self.programs = programs
        self.hosts = hosts
        self._memories = memories

    def table(self) -> dict[str, Any]:
        """triton, without its submodules."""
        return {
            "Config": Config,
            "autotune": autotune,
            "cdiv": cdiv,
            "heuristics": heuristics,
            "jit": self.jit,
            "next_power_of_2": next_power_of_2,
        }

    def jit(self, function: Any = None, **_: Any) -> Any:
        """@triton.jit, with or without options."""
        if function is None:
            return self.jit
        return JITFunction(function, self)

    def argument(self, name: str, value: Any) -> Any:
        """A launch argument as the kernel sees it."""
        if isinstance(value, torch.Tensor):
            return self._pointer(name, value)
        if isinstance(value, bool) or value is None or isinstance(value, dtypes.DType):
            return value
        if isinstance(value, int):
            return scalar(value)
        if isinstance(value, float):
            return Tile(np.asarray(value, np.float32), dtypes.float32)
        raise TypeError(f"kernel argument {name}: expected a tensor or a number, got {type(value).__name__}")

    def _pointer(self, name: str, tensor: torch.Tensor) -> Pointer:
        if not is_on_device(tensor):
            raise ValueError(f"kernel argument {name}: expected a tensor on the device, got one in host memory")
        with torch._C.DisableTorchFunction():
            element = dtypes.from_torch(tensor.dtype)
            if element is None:
                raise Unsupported(f"kernel argument {name}: {tensor.dtype}")
            memory = self._memories.of_argument(name, tensor)
            return Pointer(memory, element, int(tensor.storage_offset()), name)


class JITFunction(GridLaunch):
    """A kernel: `kernel[grid](...)` launches it on the current stream, `kernel(...)` inside a kernel calls it."""

    def __init__(self, function: FunctionType, triton: Triton) -> None:
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.fn = function
        self._triton = triton

    @cached_property
    def _helper(self) -> Callable[..., Any]:
        return self._triton.programs.helper(self.fn)

    @cached_property
    def _program(self) -> KernelProgram:
        return self._triton.programs.kernel(self.fn)

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.fn)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._helper(*arguments, **keywords)

    @cached_property
    def arg_names(self) -> list[str]:
        return list(self._signature.parameters)

    def launch(self, grid: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Enqueue the kernel on the current stream."""
        parameters = self._signature.parameters
        options = {
            name: value for name, value in keywords.items() if name in parameters or name not in COMPILER_OPTIONS
        }
        bound = self._signature.bind(*arguments, **options)
        bound.apply_defaults()
        values = [
            value if _is_constexpr(parameters[name]) else self._triton.argument(name, value)
            for name, value in bound.arguments.items()
        ]
        axes = grid(dict(bound.arguments)) if callable(grid) else grid
        axes = tuple(axes) if isinstance(axes, list | tuple) else (axes,)
        program = self._program
        self._triton.hosts.check_launch()
        host = self._triton.hosts.current
        body = partial(program.run, *values)
        host.device.launch(self.__name__, axes, body, host.stream, actors_per_program=program.actors)


def _is_constexpr(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name.endswith("constexpr")


def cdiv(numerator: int, denominator: int) -> int:
    """triton.cdiv: ceiling division on the host, where integers have no end."""
    return (numerator + denominator - 1) // denominator


def next_power_of_2(value: int) -> int:
    """The smallest power of two that is not below `value`."""
    return 1 if value < 1 else 1 << (value - 1).bit_length()


class NPUUtils:
    """triton.backends.ascend.driver.NPUUtils, and triton.runtime.driver.active.utils: core counts of the device."""

    vector_cores: int
    ai_cores: int

    def get_aivector_core_num(self) -> int:
        return self.vector_cores

    def get_aicore_num(self) -> int:
        return self.ai_cores

    def get_device_properties(self, device: Any) -> dict[str, int]:
        """Cores by the names that the driver has for them."""
        return {"num_aicore": self.ai_cores, "num_vectorcore": self.vector_cores}


def npu_utils(*, vector_cores: int, ai_cores: int) -> type[NPUUtils]:
    """The class for a device with so many cores."""
    return type("NPUUtils", (NPUUtils,), {"vector_cores": vector_cores, "ai_cores": ai_cores})
