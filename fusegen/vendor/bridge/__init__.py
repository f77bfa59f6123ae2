"""Distributed operations through a compiler chain that does not know them.

    TTIR with markers --lowering--> what the adapter takes --adapter--> linalg with markers
         --raising--> custom operations --scopes--> regions for one core type --family950--> calls, for 950 only

Each step is a function from a module to a module. What a step cannot do faithfully it refuses by name (`refusals`),
with the line of the generated file.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.targets import Target
from fusegen.vendor.bridge.family950 import calls_for_950
from fusegen.vendor.bridge.lowering import lower_markers
from fusegen.vendor.bridge.raising import raise_markers
from fusegen.vendor.bridge.scopes import scope_regions
from fusegen.vendor.mlir import Operation, parse_module
from fusegen.vendor.tools import Toolchain


@dataclass(frozen=True, slots=True)
class Bridged:
    """A kernel on its way through the bridge.

    distributed  linalg with custom operations and scopes: what the public passes of the vendor make
    lowered      what is given to the compiler of the target; differs from `distributed` for the 950 family only
    """

    distributed: Operation
    lowered: Operation


def bridge(ttir: str, target: Target, tools: Toolchain) -> Bridged:
    """The kernel as linalg for the compiler. Raises BridgeRefusal for what would not be carried over faithfully."""
    lowered = lower_markers(parse_module(tools.read_ttir(ttir)))
    linalg = parse_module(tools.adapt(str(lowered.module), target))
    distributed = scope_regions(raise_markers(linalg, lowered.stand_ins, target))
    return Bridged(distributed, calls_for_950(distributed) if target.family == "950" else distributed)
