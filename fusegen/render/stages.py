"""From a stage to its view: the loops, names, waits, offsets and masks of one work loop as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fusegen.plan.expr import KERNEL, Const, Expr, Sym, symbols, text
from fusegen.plan.ir import KernelPlan
from fusegen.plan.layout import Layout
from fusegen.plan.stages import (
    Access,
    Announce,
    Kind,
    Level,
    Peer,
    Stage,
    TileAxis,
    Wait,
)
from fusegen.plan.tasks import WorkLoop, block_elements, buffer_coordinates, slot_coordinates, work_loop
from fusegen.render.context import (
    AccessView,
    AnnounceView,
    BatchView,
    ItemView,
    LevelView,
    Line,
    StageView,
    WaitView,
)
from fusegen.render.words import axis_lines, binding_line, closed, loop_view, mask_text, names_of, term_text, varies

SLOT = "slot"


@dataclass(frozen=True, slots=True)
class Lowering:
    """One stage of a plan on its way to text."""

    plan: KernelPlan
    stage: Stage

    def view(self) -> StageView:
        """The whole work loop."""
        stage, loop = self.stage, work_loop(self.plan, self.stage)
        part = stage.workers.part
        core, _ = stage.workers.base()
        guards = {"First": "{core} < {count}", "Rest": "{core} >= {count}"}
        guard = guards[type(part).__name__].format(core=core.name, count=part.count.name) if part else None
        tile_names = {item.name for item in loop.items}
        batched = stage.batched and bool(self._announces(Level.TILE) or self._announces(Level.ITEM))
        reads = [access for access in stage.reads if access.region != "bias"]
        bias = [access for access in stage.reads if access.region == "bias"]
        return StageView(
            kind=stage.kind.value,
            guard=guard,
            core=text(loop.core, KERNEL),
            total=loop.total.name,
            cores=text(loop.cores, KERNEL),
            round=self._level(Level.ROUND, ()),
            waiting=self._waiting(loop),
            credit=self._level(Level.CREDIT, self._credit_lines()),
            item=self._level(Level.ITEM, self._item_lines(loop, tile_names), batched=batched),
            items=tuple(ItemView(i.name, text(i.first, KERNEL), text(i.stop, KERNEL)) for i in loop.items),
            tile=self._level(Level.TILE, self._tile_lines(tile_names), batched=batched),
            source=self._level(Level.SOURCE, self._source_lines()),
            step=self._step(),
            source_comment=tuple(stage.partner.comment.splitlines()) if stage.partner else (),
            mask=self._tile_mask(),
            reads=tuple(self._access(access) for access in reads),
            writes=tuple(self._access(access) for access in stage.writes),
            bias=self._access(bias[0]) if bias else None,
            depth=self._depth(),
            shape=", ".join(axis.tile for axis in stage.tile[:2]),
            precision="ieee" if self.plan.dtype == "float32" else None,
            block_elements=text(block_elements(self.plan, stage), KERNEL) if stage.kind is Kind.PUT else None,
            batch=self._batch(loop) if batched else None,
            event=None if stage.hand_over is None else "TILE_STORED",
            hands_over_rounds=stage.hand_over is not None and stage.batched,
            first_announces=stage.kind is Kind.ANNOUNCE,
        )

    def _waiting(self, loop: WorkLoop) -> str | None:
        """A core without work must not wait for the round: nobody waits for it in turn."""
        if not any(wait.level is Level.ROUND for wait in self.stage.waits):
            return None
        return f"{text(loop.core, KERNEL)} < {loop.total.name}"

    def _credit_lines(self) -> list[Line]:
        """The slot that is written at the end of a round: the same on every rank."""
        after = [announce for announce in self.stage.announces if announce.level is Level.ROUND]
        return [Line(SLOT, text(self._slot(announce), KERNEL)) for announce in after]

    # names

    def needed(self) -> frozenset[str]:
        """Every name that the stage's text uses, and that names it uses are made of."""
        stage = self.stage
        roots: list[Expr] = [stage.workers.core(), stage.workers.cores(), Sym(stage.tasks.index_total)]
        for access in (*stage.reads, *stage.writes):
            roots += [term for pair in self._terms(access) for term in pair]
            roots += [access.place.rank] if isinstance(access.place, Peer) else []
        for axis in stage.tile if stage.kind is not Kind.PUT or stage.inner else ():
            roots += [axis.origin, axis.offset, axis.stop]
        roots += self._signal_roots(self.stage.waits, self.stage.announces)
        loop = work_loop(self.plan, stage)
        roots += [each for item in loop.items for each in (item.first, item.stop)]
        if stage.kind is Kind.GEMM:
            roots.append(Sym("blocks_k"))
        if stage.kind is Kind.PUT:
            roots.append(block_elements(self.plan, stage))
        if stage.workers.part:
            roots.append(stage.workers.part.count)
        names = frozenset().union(*(symbols(root) for root in roots))
        partner = (stage.partner,) if stage.partner else ()
        return closed(names, (*loop.bindings, *partner))

    def _signal_roots(self, waits: Iterable[Wait], announces: Iterable[Announce]) -> list[Expr]:
        roots: list[Expr] = []
        for wait in waits:
            roots += [self._slot(wait), wait.count, wait.value]
            roots += [wait.place.rank] if isinstance(wait.place, Peer) else []
        for announce in announces:
            roots += [self._slot(announce), announce.value, announce.rank]
            roots += [announce.each.first, announce.each.stop] if announce.each else []
        return roots

    def _item_lines(self, loop: WorkLoop, tile_names: set[str]) -> list[Line]:
        """Names of a work item, mapped pointers, and positions that all its tiles share."""
        needed = self.needed()
        result = [binding_line(binding) for binding in loop.bindings if set(names_of(binding)) & needed]
        if self.stage.kind is not Kind.REDUCE:
            result += self._remote_lines()
        return result + [line for axis in self._axes() if not varies(axis, tile_names) for line in axis_lines(axis)]

    def _axes(self) -> tuple[TileAxis, ...]:
        """Tile axes with positions of their own outside of the body."""
        if self.stage.kind in (Kind.PUT, Kind.ANNOUNCE):
            return ()
        return self.stage.tile[:2]

    def _tile_lines(self, tile_names: set[str]) -> list[Line]:
        """The slot, and positions that differ from tile to tile."""
        slots = [self._slot_line()] if self._slot_level() is Level.TILE else []
        axes = [line for axis in self._axes() if varies(axis, tile_names) for line in axis_lines(axis)]
        block = [self._block()] if self.stage.kind is Kind.PUT else []
        return [line for line in (*block, *slots, *axes) if line is not None]

    def _source_lines(self) -> list[Line]:
        """The rank whose tile comes next, and its memory."""
        if self.stage.kind is not Kind.REDUCE or self.stage.partner is None:
            return []
        partner = self.stage.partner
        lines = [] if self._step() == partner.name else [Line(partner.name, text(partner.value, KERNEL))]
        if self._slot_level() is Level.SOURCE:
            line = self._slot_line()
            lines += [line] if line else []
        return lines + self._remote_lines()

    def _step(self) -> str:
        """Variable of the loop over ranks: the rank itself where the order is the same on all ranks."""
        partner = self.stage.partner
        return partner.name if partner and partner.value == Sym("step") else "step"

    def _block(self) -> Line | None:
        """First row of the block that is sent."""
        if self.stage.kind is not Kind.PUT or not self.stage.inner:
            return None
        (axis,) = self.stage.tile
        return Line(axis.index, text(axis.origin, KERNEL))

    def _depth(self) -> Line | None:
        """Positions along K, in the inner loop of a multiplication."""
        if self.stage.kind is not Kind.GEMM:
            return None
        (line,) = axis_lines(self.stage.tile[2])
        return line

    # pointers

    def _remote_lines(self) -> list[Line]:
        """Mapped pointers to other ranks' memory: of slots that are waited for there, and of tiles."""
        found: dict[str, str] = {}
        for wait in self.stage.waits:
            if isinstance(wait.place, Peer):
                found[f"remote_{wait.slots}"] = f"dl.symm_at({wait.slots}_ptr, {wait.place.rank.name})"
        for access in (*self.stage.reads, *self.stage.writes):
            if isinstance(access.place, Peer) and self.stage.kind is not Kind.PUT:
                base = self._waited(access.region, Level.ROUND) or f"{access.region}_ptr"
                found[f"remote_{access.region}"] = f"dl.symm_at({base}, {access.place.rank.name})"
        return [Line(name, value) for name, value in found.items()]

    def _waited(self, region: str, *levels: Level) -> str | None:
        """The name of the region's pointer after a wait at one of these levels."""
        return region if any(w.region == region and w.level in levels for w in self.stage.waits) else None

    def _mapped(self, region: str) -> str:
        """The region's pointer before any wait inside of the work loop."""
        accesses = (*self.stage.reads, *self.stage.writes)
        remote = any(a.region == region and isinstance(a.place, Peer) for a in accesses)
        if remote and self.stage.kind is not Kind.PUT:
            return f"remote_{region}"
        return self._waited(region, Level.ROUND) or f"{region}_ptr"

    def _pointer(self, region: str) -> str:
        """The region's pointer in the body."""
        return self._waited(region, Level.ITEM, Level.TILE, Level.SOURCE) or self._mapped(region)

    # accesses

    def _terms(self, access: Access) -> list[tuple[Expr, Expr]]:
        plan = self.plan
        if plan.is_buffer(access.region):
            return list(plan.buffer(access.region).layout.offset(buffer_coordinates(plan, access)))
        tensor = plan.tensor(access.region)
        if tensor.contiguous:
            layout = Layout(tensor.axes)
            named = {axis.name: c for axis, c in zip(tensor.axes, access.coordinates, strict=True)}
            return list(layout.offset(named))
        strides: tuple[Expr, ...] = (*(Sym(stride) for stride in tensor.strides), Const(1))
        return list(zip(access.coordinates, strides, strict=False))

    def _access(self, access: Access) -> AccessView:
        axes = self._tile_axes_of(access)
        terms = [term_text(axes, coordinate, stride) for coordinate, stride in self._terms(access)]
        offset = " + ".join(term for term in terms if term != "0") or "0"
        gemm = self.stage.kind is Kind.GEMM
        region = access.region
        mask = Line(f"{region}_mask" if gemm else "mask", mask_text(axes))
        turned = None if self.plan.is_buffer(region) else self.plan.tensor(region).turned
        view = AccessView(region, self._pointer(region), Line(f"{region}_offset", offset), mask, turned)
        return replace(view, other=self._turned(access)) if turned else view

    def _turned(self, access: Access) -> AccessView:
        """The same tile with its axes swapped: what is contiguous comes last."""
        axes = self._tile_axes_of(access)[::-1]
        terms = [term_text(axes, coordinate, stride) for coordinate, stride in self._terms(access)][::-1]
        region = access.region
        offset = Line(f"{region}_offset", " + ".join(terms))
        return AccessView(region, self._pointer(region), offset, Line(f"{region}_mask", mask_text(axes)))

    def _tile_axes_of(self, access: Access) -> list[TileAxis]:
        """Tile axes in the order in which the access names them: rows first."""
        axes: list[TileAxis] = []
        for coordinate in access.coordinates:
            found = symbols(coordinate)
            axes += [axis for axis in self.stage.tile if found & {axis.index, axis.local} and axis not in axes]
        return axes

    def _tile_mask(self) -> Line | None:
        """The mask of the tile that is moved or written."""
        if self.stage.kind in (Kind.PUT, Kind.ANNOUNCE):
            return None
        return Line("mask", mask_text(list(self.stage.tile[:2])))

    # signals

    def _level(self, level: Level, lines: Sequence[Line], *, batched: bool = False) -> LevelView:
        waits = tuple(self._wait(wait) for wait in self.stage.waits if wait.level is level)
        announces = () if batched else self._announces(level)
        shown = list(lines)
        if level is self._slot_level() and level is Level.ITEM:
            line = self._slot_line()
            shown += [line] if line else []
        fence = any(announce.fence for announce in self.stage.announces if announce.level is level) and bool(announces)
        return LevelView(tuple(shown), waits, fence, announces)

    def _slot(self, signal: Wait | Announce) -> Expr:
        """Offset of a slot, in words."""
        layout = self.plan.slot_group(signal.slots).layout
        offset: Expr = Const(0)
        for coordinate, stride in layout.offset(slot_coordinates(self.plan, signal)):
            offset = offset + coordinate * stride
        return offset * Sym("SLOT_WORDS")

    def _named(self) -> Wait | Announce | None:
        """The signal whose slot has a name: the first one inside of the work loop."""
        inside = [each for each in self.stage.signals() if each.level not in (Level.ROUND, Level.CREDIT)]
        return next((each for each in inside if not self._varies_in_loop(each)), None)

    def _varies_in_loop(self, signal: Wait | Announce) -> bool:
        """True when each turn of the loop around a notify has a slot of its own."""
        each = signal.each if isinstance(signal, Announce) else None
        return each is not None and each.name in symbols(self._slot(signal))

    def _slot_level(self) -> Level | None:
        named = self._named()
        return named.level if named else None

    def _slot_line(self) -> Line | None:
        named = self._named()
        return Line(SLOT, text(self._slot(named), KERNEL)) if named else None

    def _slot_text(self, signal: Wait | Announce) -> str:
        """The name of the slot where it is the one that has a name and is in reach."""
        named, offset = self._named(), self._slot(signal)
        if signal.level is Level.ROUND and isinstance(signal, Announce):
            return SLOT
        inside = signal.level not in (Level.ROUND, Level.CREDIT)
        reachable = inside and named is not None and Level.SOURCE not in {named.level} - {signal.level}
        if named is not None and reachable and self._slot(named) == offset:
            return SLOT
        return text(offset, KERNEL)

    def _wait(self, wait: Wait) -> WaitView:
        pointer = f"remote_{wait.slots}" if isinstance(wait.place, Peer) else f"{wait.slots}_ptr"
        outside = wait.level in (Level.ROUND, Level.CREDIT)
        base = f"{wait.region}_ptr" if outside else self._mapped(wait.region)
        return WaitView(
            pointer,
            self._slot_text(wait),
            text(wait.count, KERNEL),
            text(wait.value, KERNEL),
            (Line(wait.region, f"dl.consume_token({base}, token)"),),
        )

    def _announces(self, level: Level) -> tuple[AnnounceView, ...]:
        return tuple(self._announce(announce) for announce in self.stage.announces if announce.level is level)

    def _announce(self, announce: Announce) -> AnnounceView:
        waited = any(wait.region == announce.slots and wait.level is Level.CREDIT for wait in self.stage.waits)
        return AnnounceView(
            announce.slots if waited else f"{announce.slots}_ptr",
            self._slot_text(announce),
            text(announce.rank, KERNEL),
            text(announce.value, KERNEL),
            loop_view(announce.each) if announce.each else None,
            tuple(announce.comment.splitlines()),
        )

    def _batch(self, loop: WorkLoop) -> BatchView:
        """The second loop: names that the announcements need, and the announcements."""
        inside = [each for each in self.stage.announces if each.level in (Level.TILE, Level.ITEM)]
        looped = any(each.level is Level.TILE for each in inside)
        items = loop.items if looped else ()
        roots = self._signal_roots((), inside) + [each for item in items for each in (item.first, item.stop)]
        names = closed(frozenset().union(*(symbols(root) for root in roots)), loop.bindings)
        lines = [binding_line(binding) for binding in loop.bindings if set(names_of(binding)) & names]
        announces = tuple(self._announce(announce) for announce in inside)
        named = [each for each, view in zip(inside, announces, strict=True) if view.slot == SLOT]
        slots = {text(self._slot(each), KERNEL) for each in named}
        tile = LevelView(tuple(Line(SLOT, slot) for slot in sorted(slots)), (), False, announces)
        return BatchView(
            tuple(lines),
            tuple(ItemView(i.name, text(i.first, KERNEL), text(i.stop, KERNEL)) for i in items),
            tile,
        )


def stage_view(plan: KernelPlan, stage: Stage) -> StageView:
    """The view of one stage of a finished plan."""
    return Lowering(plan, stage).view()
