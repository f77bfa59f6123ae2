"""How `fusegen explain` looks on a terminal; `plan.explain` has the data."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape

from fusegen.cli.report import console, table
from fusegen.plan.explain import Explanation


def print_explanation(explanation: Explanation) -> None:
    """Decisions with their reasons, then memory, slots, stages, launch, edges, program, occupancy and advice."""
    out = console()
    shape = ", ".join(f"{axis}={extent}" for axis, extent in explanation.shape.items())
    out.print(f"[bold]{escape(explanation.spec)}[/]: {explanation.ranks} ranks, {explanation.cores} cores, {shape}\n")
    decisions = table("rule", "choice", "reason", "guide")
    for decision in explanation.decisions:
        decisions.add_row(*(escape(str(word)) for word in decision.values()))
    out.print(decisions, "")
    _print_memory(out, explanation)
    _print_slots(out, explanation)
    _print_stages(out, explanation)
    _print_edges(out, explanation)
    out.print("[bold]program[/]")
    for line in explanation.program:
        out.print(f"{'  ' * (line['depth'] + 1)}{escape(line['text'])}", soft_wrap=True)
    out.print()
    _print_launch(out, explanation)
    _print_occupancy(out, explanation)
    _print_advice(out, explanation)


def _print_memory(out: Console, explanation: Explanation) -> None:
    tensors = table("tensor", "role", "axes", "dtype", "bytes", numbers=["bytes"])
    for tensor in explanation.tensors:
        tensors.add_row(tensor["name"], tensor["role"], _axes(tensor["axes"]), tensor["dtype"], f"{tensor['bytes']:,}")
    out.print(tensors, "")
    columns = ("symmetric memory", "axes", "dtype", "elements", "bytes", "written by", "read by")
    memory = table(*columns, numbers=["elements", "bytes"])
    for buffer in explanation.buffers:
        memory.add_row(
            buffer["name"],
            _axes(buffer["axes"]),
            buffer["dtype"],
            f"{buffer['elements']:,}",
            f"{buffer['bytes']:,}",
            ", ".join(buffer["written_by"]),
            ", ".join(buffer["read_by"]),
        )
    out.print(memory, "")


def _print_slots(out: Console, explanation: Explanation) -> None:
    if not explanation.slot_groups:
        out.print("no signal slots\n")
        return
    slots = table("signal slots", "of", "purpose", "axes", "slots", "bytes", "reset by", numbers=["slots", "bytes"])
    for group in explanation.slot_groups:
        slots.add_row(
            group["name"],
            group["buffer"],
            f"{group['purpose']}: {group['meaning']}",
            _axes(group["axes"]),
            f"{group['count']:,}",
            f"{group['bytes']:,}",
            ", ".join(group["resetters"]) or "none",
        )
    out.print(slots)
    words: dict[str, list[str]] = {}
    for group in explanation.slot_groups:
        words.setdefault(group["values_in_words"], []).append(group["name"])
    for text, names in words.items():
        out.print(f"{' and '.join(names)}: {escape(text)}")
    out.print()


def _print_stages(out: Console, explanation: Explanation) -> None:
    stages = table(
        "stage", "kind", "on", "cores", "work items of a round", "a launch", "each", "tile", numbers=["cores"]
    )
    for stage in explanation.stages:
        tasks = stage["tasks"]
        each = {**tasks["carried"], **stage["inner"]}
        stages.add_row(
            stage["name"],
            stage["kind"],
            stage["workers"]["which"],
            f"{stage['workers']['count']:,}",
            f"{tasks['per_round']:,}" + (f": {_axes(tasks['axes'])}" if tasks["axes"] else ""),
            f"{tasks['total']:,}",
            _axes({axis: extent for axis, extent in each.items() if extent > 1}) or "one tile",
            _axes(stage["tile"]) or "-",
        )
    out.print(stages, "")


def _print_edges(out: Console, explanation: Explanation) -> None:
    edges = table("edge", "from", "to", "over", "distance", "ordered by")
    for edge in explanation.edges:
        later = _counted(edge["distance"], "round") if edge["distance"] else "same round"
        distance = "next launch" if edge["across_launches"] else later
        edges.add_row(edge["kind"], edge["source"], edge["target"], edge["buffer"], distance, edge["cover"])
    out.print(edges, "")


def _print_launch(out: Console, explanation: Explanation) -> None:
    launch = explanation.launch
    cores = "vector cores" if launch["kind"] == "vector" else "AI cores"
    events = launch["events"]
    out.print(
        f"[bold]launch[/]     {launch['kind']} kernel on {launch['grid']} {cores}, at least {launch['minimum_cores']}; "
        f"{_counted(launch['rounds'], 'round')}, {_counted(launch['barriers'], 'barrier')}, "
        f"{len(events['used'])} of {events['available']} events"
    )


def _print_occupancy(out: Console, explanation: Explanation) -> None:
    occupancy = explanation.occupancy
    (stage,) = (each for each in explanation.stages if each["name"] == occupancy["stage"])
    partners = [axis for axis in stage["tasks"]["axes"] if axis not in occupancy["carried"]]
    merged = ", ".join((*occupancy["merged"], *("ranks" for _ in partners))) or "one tile"
    carried = ", ".join(f"{count} {axis}" for axis, count in occupancy["carried"].items() if count > 1)
    out.print(
        f"[bold]work[/]       {stage['name']}: {_counted(occupancy['total_tasks'], 'work item')} over {merged}, "
        f"each with {carried or 'one tile'}; {_counted(occupancy['tiles'], 'tile')} in a launch on each rank"
    )
    full = "[green]all have work[/]" if occupancy["full"] else f"[yellow]{occupancy['idle_cores']} idle[/]"
    role = " of a role" if explanation.launch["kind"] == "vector" else ""
    out.print(
        f"[bold]occupancy[/]  {occupancy['active_cores']} of {occupancy['role_cores']} cores{role} work "
        f"({occupancy['utilization']:.0%}), {full}"
    )
    for each in occupancy["stages"]:
        items, cores = _counted(each["total_tasks"], "work item"), _counted(each["cores"], "core")
        out.print(f"           {each['stage']}: {items} for {cores}, {each['active_cores']:,} with work")
    waiting = occupancy["active_cores"] - occupancy["tiles_in_flight"]
    if waiting > 0:
        out.print(
            f"[bold]ring[/]       holds {occupancy['tiles_in_flight']} tiles of each stage: {waiting} working cores "
            "wait for a free place at any time; a larger buffer_num lets more of them move data"
        )


def _print_advice(out: Console, explanation: Explanation) -> None:
    advice = explanation.advice
    if advice["recommended"] == advice["strength"]:
        said, followed = "not needed", f"the spec has {advice['chosen']}"
    else:
        said = f"{advice['recommended']}, {advice['strength']}"
        followed = (
            "the spec follows"
            if advice["follows"]
            else f"[yellow]the spec does not follow: sync is {advice['chosen']}[/]"
        )
    out.print("\n[bold]synchronisation advice[/] (guide 1.3)")
    out.print(f"  {said}: {escape(advice['reason'])}; {followed}")


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _axes(axes: Mapping[str, int]) -> str:
    return " x ".join(f"{axis} {extent}" for axis, extent in axes.items())
