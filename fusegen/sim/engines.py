"""The engines that move data between ranks, and the nodes that the ranks are on.

MTE loads and stores peer memory that `dl.symm_at` maps, inside a node only. UDMA, which the 950 family has, carries
putmem and getmem. A notify is a single word: any engine carries it inside a node, UDMA or ROCE to another one.
"""

from __future__ import annotations

from enum import IntFlag

from fusegen.sim.findings import Found, Unreachable
from fusegen.targets import Target


class OpEngineType(IntFlag):
    """ash.OpEngineType: data-movement engines, a bit mask."""

    MTE = 1
    SDMA = 2
    ROCE = 4
    UDMA = 8


class Links:
    """What carries data between the ranks of one run. `engines` are those that a rank has initialised, by rank.

    `device` is that of every rank; None for one that has whatever engines the ranks initialise. Ranks 0 to
    `ranks_per_node` - 1 are on node 0, the next ones on node 1, and so on.
    """

    def __init__(self, *, ranks_per_node: int, device: Target | None = None) -> None:
        self.ranks_per_node = ranks_per_node
        self.engines: dict[int, OpEngineType] = {}
        self.device = device

    def node(self, rank: int) -> int:
        """The node that a rank is on."""
        return rank // self.ranks_per_node

    def of(self, rank: int) -> OpEngineType:
        """The engines that a rank has initialised."""
        return self.engines.get(rank, OpEngineType(0))

    def check_mapped(self, tensor: str, *, rank: int, peer: int) -> None:
        """Raise the finding when `rank` cannot load and store the memory of `peer`."""
        if self.node(rank) != self.node(peer):
            raise _unreachable(
                tensor,
                peer,
                f"expected a rank of node {self.node(rank)}, since MTE does not cross nodes, "
                f"got rank {peer} of node {self.node(peer)}: use putmem or getmem",
            )
        if OpEngineType.MTE not in self.of(rank):
            raise _unreachable(
                tensor,
                peer,
                "loads and stores through dl.symm_at need MTE: expected it in option_attr.data_op_engine_type, "
                f"got {engine_names(self.of(rank))}",
            )

    def check_notify(self, tensor: str, *, rank: int, peer: int) -> None:
        """Raise the finding when a notify of `rank` cannot reach `peer`."""
        if self.node(rank) != self.node(peer) and not self.of(rank) & (OpEngineType.UDMA | OpEngineType.ROCE):
            raise _unreachable(
                tensor,
                peer,
                f"a notify from node {self.node(rank)} to rank {peer} of node {self.node(peer)} needs UDMA or ROCE: "
                f"expected one of them in option_attr.data_op_engine_type, got {engine_names(self.of(rank))}",
            )


def engine_names(engines: OpEngineType) -> str:
    """`MTE | UDMA`; `none` for an empty mask."""
    return " | ".join(engine.name or "" for engine in OpEngineType if engine in engines) or "none"


def _unreachable(tensor: str, peer: int, reason: str) -> Found:
    return Found(Unreachable(f"{tensor}: {reason}", tensor=tensor, peer=peer))
