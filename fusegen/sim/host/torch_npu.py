"""torch_npu: the streams and events of torch.npu. Device tensors are in `tensors`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

import torch

from fusegen.sim.device import Stream as DeviceStream
from fusegen.sim.host.process import Hosts
from fusegen.sim.machine import OPERATION_SECONDS, Machine

QUERY_SECONDS: Final = 1e-2
"""Virtual time that an unsuccessful query takes, so that a host that polls without sleeping gets on."""

TIMED_CALLS: Final = 2
"""How often do_bench calls what it times."""


class Npu:
    """torch.npu of one machine."""

    def __init__(self, machine: Machine, hosts: Hosts) -> None:
        self._machine = machine
        self._hosts = hosts

    def table(self) -> dict[str, Any]:
        """torch.npu."""
        return {
            "Event": lambda *_, **__: Event(self._machine, self._hosts),
            "Stream": lambda *_, **__: Stream(self._machine, self._hosts, DeviceStream()),
            "config": SimpleNamespace(),
            "current_device": lambda: self._hosts.current.local_rank,
            "current_stream": lambda *_: Stream(self._machine, self._hosts, self._hosts.current.stream),
            "default_stream": lambda *_: Stream(self._machine, self._hosts, self._hosts.current.device.default_stream),
            "device": self.device,
            "device_count": lambda: self._hosts.current.local_ranks,
            "empty_cache": lambda: None,
            "get_device_name": lambda *_: "Ascend NPU (simulated)",
            "init": lambda: None,
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "manual_seed": torch.manual_seed,
            "manual_seed_all": torch.manual_seed,
            "set_compile_mode": lambda **_: None,
            "set_device": self.set_device,
            "set_stream": self.set_stream,
            "stream": self.stream,
            "synchronize": self.synchronize,
        }

    def set_device(self, device: int | str) -> None:
        """Accepts the device of this rank only, its LOCAL_RANK: one process, one device. RuntimeError for others."""
        index = str(device).removeprefix("npu").removeprefix(":") or "0"
        self._hosts.current.check_device("torch.npu.set_device", int(index))

    @contextmanager
    def device(self, device: int | str) -> Iterator[None]:
        """torch.npu.device: make a device the current one, which the device of this rank is already."""
        self.set_device(device)
        yield

    def set_stream(self, stream: Stream) -> None:
        """Make a stream the current one."""
        self._hosts.current.stream = stream.stream

    @contextmanager
    def stream(self, stream: Stream | None) -> Iterator[None]:
        """torch.npu.stream: make a stream the current one."""
        host = self._hosts.current
        previous = host.stream
        if stream is not None:
            host.stream = stream.stream
        try:
            yield
        finally:
            host.stream = previous

    def synchronize(self, *_: Any) -> None:
        """Park until every stream of the device is idle."""
        device = self._hosts.current.device
        for stream in device.streams():
            device.drain(stream)


def do_bench(npu: Npu, machine: Machine, hosts: Hosts) -> Callable[..., Any]:
    """triton.testing.do_bench of a machine: virtual milliseconds, which say nothing about the speed of the device.

    It calls the function once to warm up and then TIMED_CALLS times; the device does so for `warmup` and `rep`
    milliseconds.
    """

    def timed(
        function: Callable[[], Any], warmup: int = 25, rep: int = 100, quantiles: list[float] | None = None, **_: Any
    ) -> Any:
        function()
        npu.synchronize()
        start, end = Event(machine, hosts), Event(machine, hosts)
        start.record()
        for _call in range(TIMED_CALLS):
            function()
        end.record()
        npu.synchronize()
        each = start.elapsed_time(end) / TIMED_CALLS
        return [each] * len(quantiles) if quantiles else each

    return timed


class Stream:
    """torch.npu.Stream; equal to others of the same device stream."""

    def __init__(self, machine: Machine, hosts: Hosts, stream: DeviceStream) -> None:
        self._machine = machine
        self._hosts = hosts
        self.stream = stream

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.stream is self.stream

    def __hash__(self) -> int:
        return hash(self.stream)

    def synchronize(self) -> None:
        """Park until the stream is idle."""
        self._hosts.current.device.drain(self.stream)

    def query(self) -> bool:
        """The stream is idle. A query that fails takes a little virtual time."""
        if not self.stream.is_idle:
            self._machine.sleep(QUERY_SECONDS)
        if self.stream.is_idle:
            self.synchronize()
        return self.stream.is_idle

    def wait_stream(self, other: Stream) -> None:
        """Later work on this stream starts after what is on the other one now."""
        self._hosts.current.device.wait_for(self.stream, other.stream, other.stream.submitted)

    def wait_event(self, event: Event) -> None:
        """Later work on this stream starts after the event."""
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, by default a new one, after what is on this stream now."""
        event = event or Event(self._machine, self._hosts)
        event.record(self)
        return event


class Event:
    """torch.npu.Event; an event that was never recorded is done."""

    def __init__(self, machine: Machine, hosts: Hosts) -> None:
        self._machine = machine
        self._hosts = hosts
        self._stream: DeviceStream | None = None
        self._target = 0
        self._time = 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Mark the end of what is on a stream now, by default the current one."""
        self._stream = stream.stream if stream else self._hosts.current.stream
        self._target = self._stream.submitted
        self._time = self._machine.now

    def query(self) -> bool:
        """The work before the event is done. A query that fails takes a little virtual time."""
        if not self._is_done():
            self._machine.sleep(QUERY_SECONDS)
        if self._is_done():
            self.synchronize()
        return self._is_done()

    def synchronize(self) -> None:
        """Park until the work before the event is done."""
        if self._stream is not None:
            self._hosts.current.device.drain(self._stream, self._target)

    def wait(self, stream: Stream | None = None) -> None:
        """Later work on a stream, by default the current one, starts after the event."""
        if self._stream is not None:
            host = self._hosts.current
            host.device.wait_for(stream.stream if stream else host.stream, self._stream, self._target)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds of virtual time between two recordings, which say nothing about the speed of the device."""
        return max(end._time - self._time, (end._target - self._target) * OPERATION_SECONDS) * 1e3

    def _is_done(self) -> bool:
        return self._stream is None or self._stream.finished >= self._target
