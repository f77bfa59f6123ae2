"""Late stores: values are stale where nothing completes a store, and right where something does."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from fusegen.sim import Replay, ReplayMismatch, RunResult, run_module
from fusegen.spec import load_spec
from tests.sim.checks import assert_exact

ROOT = Path(__file__).parents[2]
SPECS = sorted(ROOT.glob("specs/*.yaml"))

TILES = {"ranks": 2, "cores": 7, "launches": 2, "shape": {"S": 330, "H": 2, "D": 72}}
BLOCKS = {"ranks": 3, "cores": 9, "launches": 2, "shape": {"S": 130, "H": 2, "D": 72}}
FENCE = " " * 20 + "libshmem_device.fence()\n"
PRODUCE = " " * 20 + "dl.notify(signal_ptr + slot, target, 2 * use + 1)\n"


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_generated_modules_compute_the_same_with_late_stores(spec: Path) -> None:
    point = load_spec(spec).spec.verify[0]
    module = ROOT / "generated" / f"{spec.stem}.py"
    options = {"ranks": 2, "cores": point.cores, "launches": 2, "shape": point.shape.model_dump()}
    plain, late = (run_module(module, **options, schedule=name) for name in ("round-robin", "late-stores"))
    assert [str(finding) for finding in late.findings] == []
    assert late.rank_errors == plain.rank_errors
    assert late.late_stores


def first_finding(path: Path, options: dict, *, schedule: str) -> RunResult:
    """The first of a few runs without the check of races that finds something, or the last of them."""
    for seed in range(4):
        result = run_module(path, **options, schedule=schedule, schedule_seed=seed, record=True)
        if result.findings:
            break
    return result


def test_a_missing_fence_gives_stale_values(signal_module: Path, mutant) -> None:
    broken = mutant(signal_module, (FENCE + PRODUCE, PRODUCE))
    assert_exact(first_finding(broken, TILES, schedule="random"))
    wrong = first_finding(broken, TILES, schedule="late-stores")
    assert [type(finding).__name__ for finding in wrong.findings] == ["WrongValues"]
    assert_exact(first_finding(signal_module, TILES, schedule="late-stores"))


@pytest.mark.parametrize("has_quiet", [False, True])
def test_a_missing_quiet_gives_stale_values(mutant, has_quiet: bool) -> None:
    module = ROOT / "generated/all2all_udma_signal.py"
    path = mutant(module, ("libshmem_device.putmem(", "libshmem_device.putmem_nbi("))
    if has_quiet:
        lines = path.read_text().splitlines(keepends=True)
        (place,) = (number for number, line in enumerate(lines) if "putmem_nbi(" in line)
        end = next(number for number in range(place, len(lines)) if lines[number].rstrip().endswith(")"))
        margin = lines[place][: -len(lines[place].lstrip())]
        lines.insert(end + 1, f"{margin}libshmem_device.quiet()\n")
        path.write_text("".join(lines))
    assert_exact(first_finding(path, BLOCKS, schedule="random"))
    late = first_finding(path, BLOCKS, schedule="late-stores")
    if has_quiet:
        assert_exact(late)
    else:
        assert [type(finding).__name__ for finding in late.findings] == ["WrongValues"]


def test_stale_values_are_replayed(signal_module: Path, mutant) -> None:
    broken = mutant(signal_module, (FENCE + PRODUCE, PRODUCE))
    wrong = first_finding(broken, TILES, schedule="late-stores")
    assert wrong.findings
    assert wrong.schedule is not None
    again = run_module(broken, **TILES, schedule=Replay(wrong.schedule, late_stores=True))
    assert again.findings == wrong.findings
    assert (again.rank_errors, again.steps) == (wrong.rank_errors, wrong.steps)
    with pytest.raises(ReplayMismatch):  # programs take a step less at their end
        run_module(broken, **TILES, schedule=Replay(wrong.schedule))


PAIR = """
ENGINES = ash.OpEngineType.MTE | ash.OpEngineType.UDMA


@triton.jit
def kernel(data_ptr, flag_ptr, y_ptr):
    rank = dl.rank()
    core = tl.program_id(0)
    row = tl.arange(0, 16)
    peer = dl.symm_at(data_ptr, 1 - rank)
{body}


def check(rank, ranks):
    data = ash.aclshmem_create_tensor([64], dtype=torch.float32, device_id=rank).zero_()
    flag = ash.aclshmem_create_tensor([64], dtype=torch.int64, device_id=rank).zero_()
    y = torch.zeros(64).npu()
    dist.barrier()
    kernel[(2,)](data, flag, y)
    dist.barrier()
    return float(y[0].item())
"""
"""Two ranks of two programs, and a body that leaves what a program has loaded in y[0]."""

MET = 'data = dl.consume_token(data_ptr, dl.wait(flag_ptr, 1, "sys", "acquire"))'


def seen(run_source, body: str, *, schedule: str = "late-stores", cores: int = 2) -> set[float]:
    """The largest of y[0] over ranks, for a few seeds."""
    source = PAIR.replace("{body}", indent(body, "    "))
    options = {"ranks": 2, "cores": cores, "schedule": schedule, "step_limit": 10_000}
    results = [run_source(source, **options, seed=seed) for seed in range(12)]
    return {result.max_abs_err for result in results if result.max_abs_err is not None}


ASK = 'dl.notify(flag_ptr, {rank}, 1)\n    dl.wait(flag_ptr + 8, 1, "sys", "acquire")'
ANSWER = "dl.notify(flag_ptr + 8, {rank}, 1)"
"""Who has announced its data stays until it has been read: its program does not end before."""


@pytest.mark.parametrize(
    ("done", "value"),
    [
        (("tl.store(data_ptr + row, 3.0)",), 0.0),
        (("tl.store(data_ptr, 3.0)",), 0.0),
        (("tl.store(data_ptr + (row * row) % 17, 3.0)",), 0.0),
        (("tl.store(data_ptr + row, 3.0, mask=row < 5)",), 0.0),
        (("tl.store(data_ptr + row, 3.0)", "tl.atomic_add(y_ptr + 9, 1.0)"), 0.0),
        (("libshmem_device.fence()", "tl.store(data_ptr + row, 3.0)"), 0.0),
        (("tl.store(data_ptr, 5.0)", "tl.store(data_ptr, 3.0)", "tl.load(data_ptr)"), 0.0),
        (("tl.store(data_ptr, 3.0)", "libshmem_device.fence()"), 3.0),
        (("tl.store(data_ptr + row, 3.0)", "libshmem_device.fence()"), 3.0),
        (("tl.store(data_ptr + (row * row) % 17, 3.0)", "libshmem_device.fence()"), 3.0),
        (("tl.store(data_ptr + row, 3.0, mask=row < 5)", "libshmem_device.fence()"), 3.0),
        (("tl.store(data_ptr + row, 3.0)", "libshmem_device.quiet()"), 3.0),
        (("tl.store(data_ptr + row, 3.0)", "tl.atomic_add(data_ptr, 1.0)"), 4.0),
        (("tl.store(data_ptr, 3.0)", "tl.store(data_ptr, 5.0)", "libshmem_device.fence()"), 5.0),
    ],
)
def test_what_completes_a_store(run_source, done: tuple[str, ...], value: float) -> None:
    """Program 0 does something and tells program 1, which loads a word of the data."""
    produce = "\n    ".join((*done, ASK.format(rank="rank")))
    consume = "\n    ".join((MET, "tl.store(y_ptr, tl.load(data))", ANSWER.format(rank="rank")))
    body = f"if core == 0:\n    {produce}\nelse:\n    {consume}"
    assert seen(run_source, body) == {value}
    assert seen(run_source, body, schedule="random") == {value or 3.0}


TRANSFER = (
    "if core == 0 and rank == 0:\n    tl.store(y_ptr + row, 7.0)\n{call}\n    "
    + ASK.format(rank=1)
    + "\n    tl.store(y_ptr, 0.0)\n"
    + f"if core == 1 and rank == 1:\n    {MET}\n    tl.store(y_ptr, tl.load(data))\n    {ANSWER.format(rank=0)}"
)
"""Rank 0 sends what it has stored to rank 1, which loads it."""


@pytest.mark.parametrize(
    ("calls", "value"),
    [
        (("putmem(data_ptr, y_ptr, 64, 1)",), 7.0),
        (("putmem_nbi(data_ptr, y_ptr, 64, 1)", "quiet()"), 7.0),
        (("putmem_nbi(data_ptr, y_ptr, 64, 1)",), 0.0),
        (("putmem_nbi(data_ptr, y_ptr, 64, 1)", "fence()"), 0.0),
    ],
)
def test_transfers_see_own_stores_and_are_late_without_quiet(run_source, calls: tuple[str, ...], value: float) -> None:
    body = TRANSFER.replace("{call}", "\n".join(f"    libshmem_device.{call}" for call in calls))
    assert seen(run_source, body) == {value}
    assert seen(run_source, body, schedule="random") == {7.0}


def test_a_source_is_read_at_quiet(run_source) -> None:
    """What is stored to the source before quiet may be what arrives."""
    calls = ("libshmem_device.putmem_nbi(data_ptr, y_ptr, 64, 1)", "tl.store(y_ptr, 0.0)", "libshmem_device.quiet()")
    body = TRANSFER.replace("{call}", indent("\n".join(calls), "    "))
    assert seen(run_source, body) == {0.0}
    assert seen(run_source, body, schedule="random") == {7.0}


def test_getmem_nbi_has_not_arrived_before_quiet(run_source) -> None:
    body = (
        "if core == 0:\n    tl.store(data_ptr + row, 3.0)\nlibshmem_device.barrier_all_vec()\n"
        "if core == 0:\n    libshmem_device.getmem_nbi(y_ptr + 16, data_ptr, 64, 1 - rank)\n"
        "{quiet}    tl.store(y_ptr, tl.load(y_ptr + 16))"
    )
    assert seen(run_source, body.replace("{quiet}", "")) == {0.0}
    assert seen(run_source, body.replace("{quiet}", "    libshmem_device.quiet()\n")) == {3.0}


def test_a_blocking_copy_comes_after_own_stores_to_its_destination(run_source) -> None:
    body = (
        "if core == 0:\n    tl.store(data_ptr + row, 3.0)\nlibshmem_device.barrier_all_vec()\n"
        "if core == 0:\n    tl.store(y_ptr + row, 9.0)\n    libshmem_device.getmem(y_ptr, data_ptr, 64, 1 - rank)"
    )
    assert seen(run_source, body) == {3.0}


@pytest.mark.parametrize(
    "load",
    ["tl.load(data_ptr + 16)", "tl.max(tl.load(data_ptr + 16 + row))", "tl.max(tl.load(data_ptr + 16 + row * 0))"],
)
def test_an_actor_sees_its_own_stores(run_source, load: str) -> None:
    body = (
        "if core == 0:\n    tl.store(data_ptr + 16 + row, 2.0)\n    tl.store(data_ptr + 16, 6.0)\n"
        f"    tl.store(y_ptr, {load})\n    tl.store(data_ptr + 16 + row, 1.0)"
    )
    assert seen(run_source, body) == {6.0}


@pytest.mark.parametrize("places", ["data_ptr + 16 + row", "data_ptr + 16 + (row * row) % 17", "data_ptr + 20"])
def test_an_actor_sees_its_own_stores_wherever_they_overlap(run_source, places: str) -> None:
    body = f"if core == 0:\n    tl.store({places}, 2.0)\n    tl.store(y_ptr, tl.load(data_ptr + 20))"
    assert seen(run_source, body) == {2.0}


@pytest.mark.parametrize(
    "steps",
    [
        ("libshmem_device.fence()", "while tl.load(flag_ptr + 8) == 0:\n        pass"),
        ("pass", 'dl.wait(flag_ptr + 8, 1, "sys", "acquire")'),
    ],
)
def test_a_store_that_somebody_waits_for_wakes_when_it_shows(run_source, steps: tuple[str, str]) -> None:
    """Nobody notifies: the waiting program goes on when the store shows, by a fence or when nobody can go on."""
    produce = "\n    ".join(("tl.store(data_ptr, 4.0)", "tl.store(flag_ptr, 1)", *steps))
    consume = "\n    ".join((MET, "tl.store(y_ptr, tl.load(data))", ANSWER.format(rank="rank")))
    assert seen(run_source, f"if core == 0:\n    {produce}\nelse:\n    {consume}") == {4.0}


def test_a_wait_and_a_notify_come_after_own_stores_to_their_slot(run_source) -> None:
    body = (
        "if core == 0:\n    tl.store(flag_ptr, 5)\n"
        '    dl.wait(flag_ptr, 1, "sys", "acquire", waitValue=5)\n'
        "    tl.store(flag_ptr, 6)\n    dl.notify(flag_ptr, rank, 7)\n    libshmem_device.fence()\n"
        "    tl.store(y_ptr, tl.load(flag_ptr).to(tl.float32))"
    )
    body = body.replace("tl.load(flag_ptr).to(tl.float32)", "tl.load(flag_ptr) * 1.0")
    assert seen(run_source, body) == {7.0}


MIX = """
if core == 0:
    with al.scope(core_mode="cube"):
        tl.store(data_ptr + row, 3.0)
        {tell}
        dl.wait(flag_ptr + 8, 1, "sys", "acquire")
    with al.scope(core_mode="vector"):
        {learn}
        if sub_vec_id() == 0:
            tl.store(y_ptr, tl.load(data_ptr))
            dl.notify(flag_ptr + 8, rank, 1)
"""
FLAG = 'al.sync_block_{}("cube", "vector", 1)'


def test_a_flag_shows_what_was_stored_before_it(run_source) -> None:
    shown = MIX.format(tell=FLAG.format("set"), learn=FLAG.format("wait"))
    assert seen(run_source, shown) == {3.0}
    notified = MIX.format(tell="dl.notify(flag_ptr, rank, 1)", learn='dl.wait(flag_ptr, 1, "sys", "acquire")')
    assert seen(run_source, notified) == {0.0}
    assert seen(run_source, notified, schedule="random") == {3.0}


def test_a_tile_for_another_core_shows_what_was_stored_before_it(run_source) -> None:
    body = """
if core == 0:
    ones = tl.full((16, 16), 1.0, tl.float32)
    total = tl.dot(ones, ones)
    with al.scope(core_mode="cube"):
        tl.store(data_ptr + row, 3.0)
    tl.store(y_ptr + 16 + row, tl.max(total, axis=0))
    with al.scope(core_mode="cube"):
        dl.wait(flag_ptr + 8, 1, "sys", "acquire")
    with al.scope(core_mode="vector"):
        if sub_vec_id() == 0:
            tl.store(y_ptr, tl.load(data_ptr))
            dl.notify(flag_ptr + 8, rank, 1)
"""
    assert seen(run_source, body) == {3.0}


def test_the_end_of_a_program_is_late_as_well(run_source) -> None:
    """A program that ends right after its notify: whoever waits for it may look before the store shows."""
    body = (
        "if core == 0:\n    tl.store(data_ptr + row, 3.0)\n    dl.notify(flag_ptr, rank, 1)\n"
        f"else:\n    {MET}\n    if rank == 0:\n        tl.store(y_ptr, tl.load(data))"
    )
    assert seen(run_source, body) == {0.0, 3.0}
