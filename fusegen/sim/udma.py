"""The rules of UDMA, guide 1.5, as functions over transfers: putmem and getmem of all actors.

A transfer that breaks a rule of RULES ends the run. Small adjacent transfers do what they should, only slowly: they are
collected, and told at the end of a run that found nothing worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from fusegen.sim.engines import Links, OpEngineType, engine_names
from fusegen.sim.findings import ActorName, Finding, Found, UdmaRule, UdmaRuleName
from fusegen.sim.machine import Machine
from fusegen.sim.memory import Pointer

if TYPE_CHECKING:
    from fusegen.sim.actors import Actor
    from fusegen.sim.device import LaunchKey
    from fusegen.sim.events import CodeLine

Builtin = Literal["putmem", "getmem", "putmem_nbi", "getmem_nbi"]

GUIDE: Final = "1.5"
MAX_BYTES: Final = 2**32 - 1
SMALL_BYTES: Final = 16 * 1024
"""A transfer of at most so many bytes counts as a tile.

It is the tile of the field's MTE kernels, 64 x 128 elements of 2 bytes. At tens of GB/s a link carries it in well under
a microsecond, which is less than what it takes to start a UDMA request and to poll for its end.
"""


@dataclass(frozen=True, slots=True)
class Transfer:
    """One call: `actor` moves `nbytes` bytes between its rank and rank `peer`. Pointers are as the kernel gave them.

    On ranks of one launch `launch` is the same.
    """

    builtin: Builtin
    actor: Actor
    launch: LaunchKey
    peer: int
    destination: Pointer
    source: Pointer
    nbytes: int

    @property
    def is_put(self) -> bool:
        return self.builtin.startswith("putmem")

    @property
    def rank(self) -> int:
        """The rank that asks for the transfer."""
        return self.actor.name.rank

    @property
    def symmetric(self) -> tuple[str, Pointer]:
        """The pointer that names memory of the peer, and the name of the parameter."""
        return ("dst", self.destination) if self.is_put else ("src", self.source)

    @property
    def local(self) -> tuple[str, Pointer]:
        """The pointer to memory of the own rank, and the name of the parameter."""
        return ("src", self.source) if self.is_put else ("dst", self.destination)


@dataclass(slots=True)
class _Series:
    """Small transfers of an actor to one peer of which each goes on where the one before has ended.

    `ends` are the places after the last one: of its destination and its source, the memory (by identity, since it may
    be freed meanwhile) and the byte address. Between them the actor has been in step with nobody: what it moves after a
    notify, a wait or a barrier is another block.
    """

    builtin: Builtin
    meetings: int
    ends: tuple[tuple[int, int], ...] = ()
    nbytes: list[int] = field(default_factory=list)


class Transfers:
    """Judges every transfer of a run.

    `issuers` has the first actor that addressed a peer, by launch, rank and peer.
    """

    def __init__(self, machine: Machine, links: Links) -> None:
        self.links = links
        self.issuers: dict[tuple[LaunchKey, int, int], ActorName] = {}
        self._machine = machine
        self._series: dict[Actor, dict[int, _Series]] = {}
        self._split_blocks: dict[CodeLine | None, list[tuple[ActorName, int, _Series]]] = {}

    def check(self, transfer: Transfer) -> None:
        """Raise the finding for a transfer that breaks a rule; remember it otherwise."""
        for rule in RULES:
            if finding := rule(transfer, self):
                raise Found(finding)
        self.issuers.setdefault((transfer.launch, transfer.rank, transfer.peer), transfer.actor.name)
        self._extend(transfer)

    def findings(self) -> list[Finding]:
        """One finding for every line that moved a block in small pieces."""
        return [self._split_block(line, cases) for line, cases in self._split_blocks.items()]

    def _extend(self, transfer: Transfer) -> None:
        """Add the transfer to the series that it continues, or start one with it."""
        series = self._series.setdefault(transfer.actor, {})
        if transfer.nbytes > SMALL_BYTES:
            series.pop(transfer.peer, None)
            return
        starts = tuple((id(pointer.memory), pointer.address()) for pointer in (transfer.destination, transfer.source))
        latest = series.get(transfer.peer)
        now = (transfer.builtin, transfer.actor.meetings, starts)
        if latest is None or (latest.builtin, latest.meetings, latest.ends) != now:
            latest = series[transfer.peer] = _Series(transfer.builtin, transfer.actor.meetings)
        elif len(latest.nbytes) == 1:
            _, line = self._machine.events.here()
            self._split_blocks.setdefault(line, []).append((transfer.actor.name, transfer.peer, latest))
        latest.ends = tuple((memory, address + transfer.nbytes) for memory, address in starts)
        latest.nbytes.append(transfer.nbytes)

    def _split_block(self, line: CodeLine | None, cases: list[tuple[ActorName, int, _Series]]) -> Finding:
        actor, peer, series = min(cases, key=lambda case: (case[0].rank, case[0].program or 0, case[1]))
        more = f"; {len(cases) - 1} more like it" if len(cases) > 1 else ""
        name, total = series.builtin, sum(series.nbytes)
        expected = f"one {name} of {total} bytes"
        finding = UdmaRule(
            f"{name} per tile where a block would do: expected {expected} with rank {peer}, got {len(series.nbytes)} "
            f"adjacent ones of at most {max(series.nbytes)} bytes without a notify, wait or barrier in between"
            f"{more} (guide {GUIDE})",
            rule="whole block",
            expected=expected,
            guide=GUIDE,
            peer=peer,
        )
        location = None if line is None else self._machine.location(line.code, line.line)
        return finding.at(actor, location)


def target_has_udma(transfer: Transfer, transfers: Transfers) -> UdmaRule | None:
    """Applicable scope: a device of the 950 family."""
    device = transfers.links.device
    if device is None or "udma" in device.engines:
        return None
    return _broken(transfer, "target", "a target of the 950 family", f"{device.name}, which has no UDMA")


def udma_is_initialised(transfer: Transfer, transfers: Transfers) -> UdmaRule | None:
    """Applicable scope: aclshmem initialised with UDMA."""
    engines = transfers.links.of(transfer.rank)
    if OpEngineType.UDMA in engines:
        return None
    expected = "ash.OpEngineType.UDMA in option_attr.data_op_engine_type"
    return _broken(transfer, "engine", expected, engine_names(engines))


def size_fits(transfer: Transfer, transfers: Transfers) -> UdmaRule | None:
    """The number of bytes is passed as uint32."""
    if 1 <= transfer.nbytes <= MAX_BYTES:
        return None
    return _broken(transfer, "size", f"1 to {MAX_BYTES} bytes, which uint32 holds", str(transfer.nbytes))


def remote_address_is_not_mapped(transfer: Transfer, transfers: Transfers) -> UdmaRule | None:
    """Constraint 1: remote memory is named by the own symmetric address, and not by what dl.symm_at returns.

    For the own rank dl.symm_at returns the own address, which is right here.
    """
    parameter, pointer = transfer.symmetric
    if pointer.memory.rank == transfer.rank:
        return None
    expected = f"as {parameter} the symmetric address of the own rank, which names rank {transfer.peer}'s memory too"
    return _broken(transfer, "mapped address", expected, f"{pointer.name} on rank {pointer.memory.rank} (dl.symm_at)")


def remote_address_is_symmetric(transfer: Transfer, transfers: Transfers) -> UdmaRule | None:
    """Constraint 1: remote memory is symmetric memory."""
    parameter, pointer = transfer.symmetric
    if pointer.memory.peers is not None:
        return None
    return _broken(
        transfer,
        "symmetric address",
        f"as {parameter} a pointer into the symmetric heap",
        f"{pointer.name}, an ordinary tensor",
    )


def local_address_is_local(transfer: Transfer, transfers: Transfers) -> UdmaRule | None:
    """Constraint 1: the other address is memory of the own rank, symmetric or not."""
    parameter, pointer = transfer.local
    if pointer.memory.rank == transfer.rank:
        return None
    expected = f"as {parameter} memory of the own rank"
    return _broken(transfer, "local address", expected, f"{pointer.name} on rank {pointer.memory.rank}")


def peer_is_another_rank(transfer: Transfer, transfers: Transfers) -> UdmaRule | None:
    """Illegal use case: movement inside a rank must go by MTE."""
    if transfer.peer != transfer.rank:
        return None
    return _broken(transfer, "own rank", "another rank: tl.load and tl.store move data inside a rank", "the own rank")


def peer_has_one_issuer(transfer: Transfer, transfers: Transfers) -> UdmaRule | None:
    """Constraint 2: one actor issues all requests of a launch to a peer, since quiet keeps one slot for it."""
    first = transfers.issuers.get((transfer.launch, transfer.rank, transfer.peer))
    if first is None or _identity(first) == _identity(transfer.actor.name):
        return None
    expected = f"all requests of a launch to rank {transfer.peer} from one core, {first} issued one before"
    got = f"one from {transfer.actor.name}: quiet keeps one slot for each rank"
    return _broken(transfer, "single core", expected, got, other=first)


Rule = Callable[[Transfer, Transfers], UdmaRule | None]

RULES: Final[tuple[Rule, ...]] = (
    target_has_udma,
    udma_is_initialised,
    size_fits,
    remote_address_is_not_mapped,
    remote_address_is_symmetric,
    local_address_is_local,
    peer_is_another_rank,
    peer_has_one_issuer,
)


def _identity(name: ActorName) -> tuple[object, ...]:
    """Who issues: a program has its core for as long as it runs, and each of its actors is an AIC or AIV of that."""
    return name.rank, name.kind, name.program, name.sub_vec_id


def _broken(
    transfer: Transfer, rule: UdmaRuleName, expected: str, got: str, *, other: ActorName | None = None
) -> UdmaRule:
    message = f"{transfer.builtin} with rank {transfer.peer}: expected {expected}, got {got} (guide {GUIDE})"
    return UdmaRule(message, rule=rule, expected=expected, guide=GUIDE, peer=transfer.peer, other=other)
