"""Puts the stand-in modules in place for the time of a run and takes every trace of them away afterwards."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import invalidate_caches
from types import ModuleType
from typing import Any, Final

import torch
import torch.distributed
import torch.multiprocessing

from fusegen.sim.errors import Unsupported, unsupported
from fusegen.sim.heap import SymmetricHeap
from fusegen.sim.host.clock import time_module
from fusegen.sim.host.collectives import Distributed
from fusegen.sim.host.imports import Imports
from fusegen.sim.host.memories import Memories
from fusegen.sim.host.process import Globals, Hosts
from fusegen.sim.host.programs import MakePrograms
from fusegen.sim.host.rendezvous import Rendezvous
from fusegen.sim.host.shmem import Shmem
from fusegen.sim.host.tensors import Generator, NpuDevice, NpuMode, is_on_device
from fusegen.sim.host.torch_npu import Npu, do_bench
from fusegen.sim.host.triton import Triton, npu_utils
from fusegen.sim.language.algorithm import dist_swizzle2d_Nz, gemm_swizzle2d_Nz
from fusegen.sim.language.device import DeviceLanguage
from fusegen.sim.machine import Machine
from fusegen.sim.mix import CoreCount

_MISSING = object()

COLLECTION_THRESHOLD: Final = 100_000
"""Objects that a run makes before Python looks for rings among them: there are few rings, and looking takes long."""


class StandIn(ModuleType):
    """A module that has what its table lists and raises Unsupported, by name, for everything else."""

    def __init__(self, name: str, table: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        vars(self).update(table)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unsupported(f"{self.__name__}.{name}")


def modules(
    machine: Machine,
    hosts: Hosts,
    heap: SymmetricHeap,
    memories: Memories,
    language: DeviceLanguage,
    cores: CoreCount,
    programs: MakePrograms,
) -> dict[str, Any]:
    """Stand-in modules by their full name, each an attribute of its parent."""
    rendezvous = Rendezvous(machine, hosts, memories)
    triton = Triton(programs(machine, language), hosts, memories)
    npu = Npu(machine, hosts)
    utils = npu_utils(vector_cores=cores.vector, ai_cores=cores.ai)
    tables: dict[str, dict[str, Any]] = {
        "shmem": Shmem(hosts, rendezvous, heap).table(),
        "time": time_module(machine),
        "torch.npu": npu.table(),
        "torch_npu": {},
        "triton": triton.table(),
        "triton.backends": {},
        "triton.backends.ascend": {},
        "triton.backends.ascend.driver": {"NPUUtils": utils},
        "triton.language": language.triton_language(),
        "triton.language.extra": {},
        "triton.language.extra.cann": {},
        "triton.language.extra.cann.extension": language.cann_extension(),
        "triton.runtime": {},
        "triton.runtime.driver": {},
        "triton.runtime.driver.active": {
            "get_active_torch_device": lambda: NpuDevice(f"npu:{hosts.current.local_rank}"),
            "get_current_device": lambda: hosts.current.local_rank,
            "utils": utils(),
        },
        "triton.testing": {"do_bench": do_bench(npu, machine, hosts)},
        "triton_dist": {"jit": triton.jit},
        "triton_dist.language": language.distributed_language(),
        "triton_dist.language.extra": {},
        "triton_dist.language.extra.ascend": {},
        "triton_dist.language.extra.ascend.algorithm": {
            function.__name__: triton.jit(function) for function in (dist_swizzle2d_Nz, gemm_swizzle2d_Nz)
        },
        "triton_dist.language.extra.libshmem_device": language.shmem_device(),
    }
    result: dict[str, Any] = {name: StandIn(name, table) for name, table in tables.items()}
    for name, module in result.items():
        parent, _, child = name.rpartition(".")
        if parent in result:
            setattr(result[parent], child, module)
    result["torch_npu"].npu = result["torch.npu"]
    result["torch.distributed"] = Distributed(hosts, rendezvous).table()
    return result


@contextmanager
def installed(
    machine: Machine,
    hosts: Hosts,
    heap: SymmetricHeap,
    language: DeviceLanguage,
    cores: CoreCount,
    programs: MakePrograms,
) -> Iterator[None]:
    """Install all stand-ins; on leaving, modules, torch and what a process can set globally are as before."""
    memories = Memories(hosts, heap, machine.events)
    stand_ins = modules(machine, hosts, heap, memories, language, cores, programs)
    distributed = stand_ins.pop("torch.distributed")
    hosts.imports.know([name for name in stand_ins if name != "time"])
    with ExitStack() as stack:
        stack.enter_context(_finder(hosts.imports))
        stack.enter_context(_items(sys.modules, stand_ins))
        stack.enter_context(_attributes(torch, {"npu": stand_ins["torch.npu"]}))
        stack.enter_context(_attributes(torch, {"Generator": Generator}))
        stack.enter_context(_attributes(torch.Tensor, {"npu": _npu, "is_npu": property(is_on_device)}))
        stack.enter_context(_attributes(torch.nn.Module, {"npu": _npu}))
        stack.enter_context(_attributes(torch.distributed, distributed))
        stack.enter_context(_attributes(atexit, {"register": partial(_register, hosts)}))
        stack.enter_context(_attributes(os, {"_exit": sys.exit}))
        for name in ("torch.multiprocessing.spawn", "torch.set_default_device"):
            owner, _, function = name.rpartition(".")
            stack.enter_context(_attributes(sys.modules[owner], {function: unsupported(name)}))
        stack.callback(Globals(os.environ, hosts.imports).restore)
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        stack.callback(gc.set_threshold, *gc.get_threshold())
        gc.set_threshold(COLLECTION_THRESHOLD, *gc.get_threshold()[1:])
        torch.set_num_threads(1)  # tiles are small: threads would wait for each other, and for other processes
        stack.enter_context(NpuMode(hosts, memories, language.signals.host_wrote))
        yield


def _register(hosts: Hosts, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Callable[..., Any]:
    """atexit.register: of one process, not of the simulator."""
    hosts.current.at_exit.append(partial(function, *arguments, **keywords))
    return function


def _npu(moved: Any, device: int | str | None = None, **_: Any) -> Any:
    """Tensor.npu, and Module.npu."""
    return moved.to(f"npu:{device}" if isinstance(device, int) else device or "npu")


@contextmanager
def _finder(imports: Imports) -> Iterator[None]:
    """Let `imports` find modules first; files may have changed since the last run, and none is left beside them."""
    invalidate_caches()
    sys.meta_path.insert(0, imports)
    with _attributes(sys, {"dont_write_bytecode": True}):
        try:
            yield
        finally:
            sys.meta_path.remove(imports)


@contextmanager
def _items(mapping: Any, items: Mapping[str, Any]) -> Iterator[None]:
    saved = {name: mapping.get(name, _MISSING) for name in items}
    mapping.update(items)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is _MISSING:
                mapping.pop(name, None)
            else:
                mapping[name] = value


@contextmanager
def _attributes(owner: Any, attributes: Mapping[str, Any]) -> Iterator[None]:
    saved = {name: vars(owner).get(name, _MISSING) for name in attributes}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
