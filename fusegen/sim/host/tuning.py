"""triton.autotune, triton.heuristics and triton.Config: what stands around the launch of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from fusegen.sim.errors import SimulationError

_CONFIG_OPTIONS: Final = ("num_warps", "num_stages", "num_ctas")


class Launchable(Protocol):
    """A kernel, or something around one, that a grid launches. `arg_names` are the kernel's parameters, in order."""

    arg_names: list[str]

    def launch(self, grid: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Enqueue the kernel on the current stream."""
        ...


class GridLaunch:
    """The two spellings of a launch: `kernel[grid](...)` and `kernel.run(..., grid=grid)`."""

    def __getitem__(self: Launchable, grid: Any) -> Callable[..., None]:
        return lambda *arguments, **keywords: self.launch(grid, arguments, keywords)

    def run(self: Launchable, *arguments: Any, grid: Any, warmup: bool = False, **keywords: Any) -> None:
        """Launch, unless only to `warmup`, which compiles."""
        if not warmup:
            self.launch(grid, arguments, keywords)


class Config:
    """triton.Config: `kwargs` by parameter of the kernel, and options of the compiler."""

    def __init__(self, kwargs: Mapping[str, Any], *options: int, pre_hook: Any = None, **more: Any) -> None:
        self.kwargs = dict(kwargs)
        self.options = dict(zip(_CONFIG_OPTIONS, options, strict=False)) | more
        self.pre_hook = pre_hook

    def all_kwargs(self) -> dict[str, Any]:
        """Everything that is passed to the kernel."""
        return {**self.kwargs, **self.options}


class Autotuner(GridLaunch):
    """A kernel with configurations, of which the machine, which has no speed to compare, always takes the first.

    `prune` may have said which are left. Tensors in `reset_to_zero` are zeroed before the first launch of each key, as
    after the trials of the device.
    """

    def __init__(
        self,
        kernel: Launchable,
        configs: Sequence[Config],
        key: Sequence[str],
        prune_configs_by: Mapping[str, Any] | None,
        reset_to_zero: Sequence[str] | None,
    ) -> None:
        if not configs:
            raise SimulationError("triton.autotune: expected at least one configuration, got none")
        self.fn = kernel
        self.arg_names = kernel.arg_names
        self.configs = list(configs)
        self._key = tuple(key)
        self._prune = (prune_configs_by or {}).get("early_config_prune")
        self._reset = tuple(reset_to_zero or ())
        self._seen: set[tuple[str, ...]] = set()

    def launch(self, grid: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Launch with the first configuration."""
        named = dict(zip(self.arg_names, arguments, strict=False)) | dict(keywords)
        configs = list(self._prune(self.configs, named, **keywords)) if self._prune else self.configs
        config = configs[0]
        key = tuple(str(named.get(name)) for name in self._key)
        if len(configs) > 1 and key not in self._seen:
            for name in self._reset:
                named[name].zero_()
        self._seen.add(key)
        if config.pre_hook is not None:
            config.pre_hook({**named, **config.all_kwargs()})
        self.fn.launch(grid, arguments, {**keywords, **config.all_kwargs()})


class Heuristics(GridLaunch):
    """A kernel some of whose parameters are computed from the others at every launch."""

    def __init__(self, kernel: Launchable, values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        self.fn = kernel
        self.arg_names = kernel.arg_names
        self._values = values

    def launch(self, grid: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Launch with the computed parameters."""
        complete = dict(keywords)
        for name, value in self._values.items():
            complete[name] = value({**dict(zip(self.arg_names, arguments, strict=False)), **complete})
        self.fn.launch(grid, arguments, complete)


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    **_: Any,
) -> Callable[[Launchable], Autotuner]:
    """@triton.autotune."""
    return lambda kernel: Autotuner(kernel, configs, key, prune_configs_by, reset_to_zero)


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Launchable], Heuristics]:
    """@triton.heuristics."""
    return lambda kernel: Heuristics(kernel, values)
