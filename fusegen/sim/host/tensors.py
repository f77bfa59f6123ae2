"""Device tensors: CPU tensors with a mark, and the mode that sees every torch operation of host code.

The mode keeps the mark where the device would keep the data, turns the device "npu" into "cpu" for torch, copies
where a transfer would, and lets an operation on device tensors wait for the current stream, as the device would order
it. Looking at metadata does not wait, and neither does an operation on host tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from fusegen.sim.errors import Unsupported
from fusegen.sim.host.memories import Memories
from fusegen.sim.host.process import Hosts
from fusegen.sim.memory import Memory

_PROPERTIES: Final = ("shape", "dtype", "device", "layout", "requires_grad", "is_sparse", "ndim", "itemsize", "nbytes")
_METHODS: Final = (
    "stride",
    "numel",
    "dim",
    "size",
    "is_contiguous",
    "data_ptr",
    "element_size",
    "storage_offset",
    "untyped_storage",
    "is_floating_point",
    "__len__",
)
METADATA: Final = frozenset(
    [getattr(torch.Tensor, name).__get__ for name in _PROPERTIES] + [getattr(torch.Tensor, name) for name in _METHODS]
)
_TO_NUMPY: Final = (torch.Tensor.numpy, torch.Tensor.__array__)
_SET_DATA: Final = torch.Tensor.data.__set__  # type: ignore[attr-defined]
_PARSE_TO: Final = torch._C._nn._parse_to
_DEVICE_PROPERTY: Final = torch.Tensor.device.__get__


class NpuDevice(str):
    """`tensor.device` of a device tensor: a string that torch takes for a device, with the fields of torch.device."""

    __slots__ = ()

    type = "npu"

    @property
    def index(self) -> int:  # type: ignore[override]
        return int(self.partition(":")[2] or 0)

    def __enter__(self) -> None:
        raise Unsupported("torch.device as a context manager")

    def __exit__(self, *_: Any) -> None: ...


class Generator(torch.Generator):
    """torch.Generator; one on the device gives the numbers that one in host memory gives here."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        return super().__new__(cls, device=_on_cpu(device))  # type: ignore[call-arg]


def is_on_device(tensor: torch.Tensor) -> bool:
    """The tensor is in device memory."""
    return getattr(tensor, "_is_on_npu", False)


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Mark a tensor as being in device memory."""
    tensor._is_on_npu = True  # type: ignore[attr-defined]
    return tensor


class NpuMode(TorchFunctionMode):
    """Stream order and devices for the torch operations of all hosts; observers are told of the memory they touch.

    `wrote` is called with symmetric memory after an operation has written it, and may park.

    While an operation is handled torch takes the mode off its stack. A handler that parks puts it back for the time,
    so that at every switch of actors the mode is in force.
    """

    def __init__(self, hosts: Hosts, memories: Memories, wrote: Callable[[Memory], None]) -> None:
        super().__init__()
        self._hosts = hosts
        self._memories = memories
        self._wrote = wrote

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if type(kwargs.get("device")) is int:  # the index of the accelerator
            kwargs["device"] = NpuDevice(f"npu:{kwargs['device']}")
        if function in METADATA:
            if function == _DEVICE_PROPERTY and is_on_device(args[0]):
                return NpuDevice(f"npu:{self._hosts.current.local_rank}")
            return function(*args, **kwargs)
        if function is torch.device:
            return _device(*args, **kwargs)
        if function is torch.Tensor.pin_memory:
            return args[0]
        if function in _TO_NUMPY and is_on_device(args[0]) and not kwargs.get("force"):
            place = f"npu:{self._hosts.current.local_rank}"
            raise TypeError(f"can't convert {place} device type tensor to numpy: expected a tensor after Tensor.cpu()")
        operands = (*args, *kwargs.values())
        for operand in operands:
            if _names_npu(operand) and ":" in operand:
                self._hosts.current.check_device(f"torch.{function.__name__}", NpuDevice(operand).index)
        was_on_device = any(map(is_on_device, _tensors(operands)))
        if was_on_device:
            with self:
                self._hosts.current.follow()
        result_on_device = _result_is_on_device(function, operands, was_on_device)
        on_cpu = {name: _on_cpu(value) for name, value in kwargs.items()}
        if function is _PARSE_TO and result_on_device:  # Module.to asks where its parameters shall be
            named = next(operand for operand in operands if _names_npu(operand))
            return (NpuDevice(named), *function(*map(_on_cpu, args), **on_cpu)[1:])
        if function in (torch.Tensor.cpu, torch.Tensor.to) and result_on_device != was_on_device:
            function, on_cpu["copy"] = torch.Tensor.to, True
            args = args if len(operands) > 1 else (*args, "cpu")
        result = function(*map(_on_cpu, args), **on_cpu)
        if function == _SET_DATA:
            args[0]._is_on_npu = is_on_device(args[1])
        if result_on_device:
            for tensor in _tensors((result,)):
                if not any(tensor is operand for operand in args):  # an operation in place moves nothing
                    on_device(tensor)
        if was_on_device:
            written = [kwargs.get("out"), args[0] if args and _is_in_place(function) else None]
            self._tell(args, kwargs, result, written)
            if _blocks(function, operands, result):
                with self:
                    self._hosts.current.drain()
            for tensor in _tensors(written):
                memory = self._memories.symmetric(tensor)
                if memory is not None:
                    with self:
                        self._wrote(memory)
        return result

    def _tell(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, written: list[Any]) -> None:
        """Tell the observers what an operation has read and written; one that makes a view has done neither."""
        with torch._C.DisableTorchFunction():
            views = {each.untyped_storage().data_ptr() for each in _tensors((result,))}
            for tensor in _tensors((*args, *kwargs.values())):
                is_write = any(tensor is each for each in written)
                if is_write or tensor.untyped_storage().data_ptr() not in views:
                    self._memories.touch(tensor, is_write=is_write)


def _blocks(function: Callable[..., Any], operands: tuple[Any, ...], result: Any) -> bool:
    """The host waits for the end of an operation: one that brings a value to the host, or a tensor from there."""
    is_mixed = not all(map(is_on_device, _tensors(operands)))
    return is_mixed or not (_is_in_place(function) or any(map(is_on_device, _tensors((result,)))))


def _is_in_place(function: Callable[..., Any]) -> bool:
    """It changes its first operand: `fill_`, `__setitem__`, `__iadd__`."""
    name = function.__name__
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and hasattr(torch.Tensor, f"__{name[3:]}"))
    return name.endswith("_")


def _device(type: Any, index: int | None = None) -> Any:
    """torch.device(...); for the npu without an index it stays without one."""
    if not _names_npu(type):
        return torch.device(type) if index is None else torch.device(type, index)
    return NpuDevice(type if index is None else f"{type}:{index}")


def _names_npu(value: Any) -> bool:
    return isinstance(value, str) and value.partition(":")[0] == "npu"


def _on_cpu(value: Any) -> Any:
    """An argument as torch takes it here."""
    return "cpu" if _names_npu(value) else value


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among values and in lists and tuples of them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _result_is_on_device(function: Callable[..., Any], operands: tuple[Any, ...], was_on_device: bool) -> bool:
    """Where the result of an operation is: where it was told to be, otherwise where its operands are."""
    if function is torch.Tensor.cpu:
        return False
    if any(map(_names_npu, operands)):
        return True
    to_host = any(
        isinstance(value, torch.device) or value == "cpu" for value in operands if isinstance(value, torch.device | str)
    )
    return was_on_device and not to_host
