"""Where each tile operation of a mix kernel runs: the placement rules of PLATFORM section 1, by analysing its text.

Every tile value comes from *origins*: a load or a tl.zeros, a dot, an arithmetic operation. A name that is assigned in
several places has the origins of all that may reach it. An origin lives on one core type:

    dot                    AIC
    arithmetic             AIVs; in a cube scope only a row that is added to a dot result, the bias: AIC
    load, zeros, full      AIC if it feeds a dot, directly or through casts, views and loops; otherwise AIVs

Scopes decide before all this. A value that is used on the other core type than it lives on is handed over at the use.
The store of a dot result, possibly cast, runs on the AIC; every other store on the AIVs, of which AIV 0 acts for both
unless its operands or the control flow around it depend on sub_vec_id().

Scalars, pointers and index tiles have no origins: all three actors compute them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fusegen.sim.actors import CoreType
from fusegen.sim.errors import Unsplittable
from fusegen.sim.split.flow import Flow, Names, Use, Value, is_plain_store
from fusegen.sim.split.kinds import Callees


@dataclass(slots=True)
class Placement:
    """The result, by syntax node: the core type of each tile operation, and the uses that hand a value over.

    `once` are the stores that AIV 0 makes for both vector cores.
    """

    homes: dict[ast.expr, CoreType] = field(default_factory=dict)
    hand_overs: dict[ast.expr, CoreType] = field(default_factory=dict)
    once: set[ast.expr] = field(default_factory=set)
    moves: set[ast.expr] = field(default_factory=set)


def place(definition: ast.FunctionDef, callees: Callees, where: Callable[[ast.AST], str]) -> Placement:
    """Place all tile operations of a kernel; `where` gives file and line.

    Raises Unsplittable for what has no place.
    """
    flow = Flow(callees, where)
    names: Names = {parameter.arg: Value() for parameter in definition.args.args + definition.args.kwonlyargs}
    flow.block(definition.body, names)
    return _resolved(flow, where)


def _resolved(flow: Flow, where: Callable[[ast.AST], str]) -> Placement:
    """Give every origin its core type, then find the uses on the other one."""
    placement = Placement(moves=flow.moves)
    uses = [replace(use, wanted=_home_of_store(flow, use)) if use.store else use for use in flow.uses.values()]
    fed = {number for use in uses if use.wanted == "cube" for number in use.origins}
    beside_dot = {
        number
        for use in uses
        if any(flow.origins[other].kind == "cube" for other in use.origins)
        for number in use.origins
    }
    homes: list[CoreType] = []
    for number, origin in enumerate(flow.origins):
        home: CoreType = "vector"
        if origin.kind != "neutral":
            home = origin.kind
        elif origin.scope is not None:
            home = origin.scope
        elif number in fed or number in beside_dot:
            home = "cube"
        homes.append(home)
        placement.homes[origin.node] = home
    for use in uses:
        assert use.wanted is not None
        if use.store is not None:
            placement.homes[use.store] = use.wanted
        if any(homes[number] != use.wanted for number in use.origins):
            _check_hand_over(use, where(use.node))
            placement.hand_overs[use.node] = use.wanted
    for call, (scope, per_vector) in flow.stores.items():
        home = placement.homes.setdefault(call, scope or "vector")
        if home == "vector" and not per_vector:
            placement.once.add(call)
    return placement


def _home_of_store(flow: Flow, use: Use) -> CoreType:
    """Where the store of a value runs."""
    assert use.store is not None
    if use.scope is not None or not is_plain_store(use.store):
        return use.scope or "vector"
    kinds = {flow.origins[number].kind for number in flow.stored[use.store]}
    return "cube" if "cube" in kinds and "vector" not in kinds else "vector"


def _check_hand_over(use: Use, place: str) -> None:
    text = ast.unparse(use.node)
    if use.scope is not None:
        raise Unsplittable(
            text,
            place,
            f"expected a tile of the {use.scope} core inside al.scope(core_mode={use.scope!r}), got one of the other "
            "core type: store it, and hand the memory over with al.sync_block_set and al.sync_block_wait",
        )
    if use.per_vector:
        raise Unsplittable(
            text,
            place,
            "expected the hand-over of a tile between AIC and AIVs to be independent of sub_vec_id(): the AIC cannot "
            "tell which vector core takes part",
        )
