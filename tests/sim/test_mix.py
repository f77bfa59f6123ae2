"""Mix kernels: what the AIC and the two AIVs of an AI core execute, and what orders them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fusegen.sim.errors import Misplaced, Unsplittable, Unsupported
from fusegen.sim.events import Event, FlagSet, FlagWaited, TileReceived, TileSent
from fusegen.sim.mix import core_unit_of
from tests.sim.checks import assert_exact

KERNEL = """
@triton.jit
def kernel(x_ptr, y_ptr, SIZE: tl.constexpr):
    row = tl.arange(0, SIZE)
    index = row[:, None] * SIZE + row[None, :]
    core = tl.program_id(0)
    {body}


def check(rank, ranks):
    x = torch.arange(256).reshape(16, 16).half().npu()
    y = torch.zeros(4, 16, 16).npu()
    kernel[({grid},)](x, y, SIZE=16)
    torch.npu.synchronize()
    x, expected = x.cpu().float(), torch.zeros(4, 16, 16)
    {expected}
    return difference(y, expected)
"""


def kernel(body: str, expected: str = "return 0.0", *, grid: int = 1) -> str:
    """A module with one mix kernel; `x` is 16 x 16, `y` has four such tiles."""
    text = KERNEL.replace("{expected}", expected).replace("{grid}", str(grid))
    return text.replace("{body}", body.strip().replace("\n", "\n    "))


SQUARE = "acc = tl.dot(tl.load(x_ptr + index), tl.load(x_ptr + index))\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("libshmem_device.barrier_all()\ntl.atomic_add(y_ptr + index, 1.0)", "expected[0] = 1"),
        (
            "libshmem_device.barrier_all()\ntl.atomic_add(y_ptr + sub_vec_id() * 256 + index, 1.0)",
            "expected[:2] = 1",
        ),
        (
            "libshmem_device.barrier_all()\nif sub_vec_id() == 1:\n    tl.atomic_add(y_ptr + index, 1.0)",
            "expected[0] = 1",
        ),
        (
            "libshmem_device.barrier_all()\nif sub_vec_id() == 1:\n    return\ntl.atomic_add(y_ptr + index, 1.0)",
            "expected[0] = 1",
        ),
        (
            "libshmem_device.barrier_all()\n"
            "for turn in range(2):\n"
            "    if turn == sub_vec_id():\n"
            "        break\n"
            "    tl.atomic_add(y_ptr + index, 1.0)",
            "expected[0] = 1",
        ),
        (
            'with al.scope(core_mode="vector"):\n    tl.atomic_add(y_ptr + index, 1.0)\n    count = 3\n'
            'with al.scope(core_mode="cube"):\n'
            "    acc = tl.dot(tl.load(x_ptr + index), tl.load(x_ptr + index))\n"
            "    for copy in range(1, count):\n"
            "        tl.store(y_ptr + copy * 256 + index, acc)",
            "expected[0] = 1; expected[1:3] = x @ x",
        ),
        (SQUARE + "tl.store(y_ptr + index, acc)", "expected[0] = x @ x"),
        (SQUARE + "tl.store(y_ptr + index, acc * 2 + acc)", "expected[0] = (x @ x) * 3"),
        (
            SQUARE + "half = (acc / 65536).to(tl.float16)\n"
            "again = tl.dot(half, tl.load(x_ptr + index))\ntl.store(y_ptr + index, again)",
            "expected[0] = (x @ x / 65536).half().float() @ x",
        ),
        (
            SQUARE + "bias = tl.load(y_ptr + index) + 1\ntl.store(y_ptr + index, tl.where(acc > 9e5, acc, bias))",
            "expected[0] = torch.where(x @ x > 9e5, x @ x, 1)",
        ),
    ],
)
@pytest.mark.parametrize("schedule", ["round-robin", "random"])
def test_who_executes_what(run_source, body: str, expected: str, schedule: str) -> None:
    assert_exact(run_source(kernel(body, expected), cores=2, schedule=schedule))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            'with al.scope(core_mode="cube"):\n    a = tl.load(x_ptr + index)\n    tl.store(y_ptr + index, a * 2)',
            "a * 2: the cube core has no arithmetic on tiles",
        ),
        (
            'with al.scope(core_mode="vector"):\n    acc = tl.dot(tl.load(x_ptr + index), tl.load(x_ptr + index))',
            "tl.dot: expected it outside of a vector scope",
        ),
        (
            'with al.scope(core_mode="cube"):\n    ' + SQUARE + 'with al.scope(core_mode="vector"):\n'
            "    tl.store(y_ptr + index, acc + 1)",
            "acc: expected a tile of the vector core inside al.scope(core_mode='vector')",
        ),
        (
            'with al.scope(core_mode="cube"):\n    with al.scope(core_mode="vector"):\n        pass',
            "al.scope(core_mode='vector'): no core runs it inside a cube scope",
        ),
        ('with al.scope(core_mode="both"):\n    pass', "expected al.scope(core_mode='cube') or"),
        (
            "a = tl.load(x_ptr + index) * (1 + sub_vec_id())\nacc = tl.dot(a, a)",
            "tl.dot: expected it to be independent of sub_vec_id()",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(run_source, body: str, message: str) -> None:
    with pytest.raises(Unsplittable, match=r"^small.py:\d+: .*" + re.escape(message)):
        run_source(kernel(body))


def test_a_scalar_that_only_one_core_type_loads_is_refused_by_the_other(run_source) -> None:
    body = (
        'with al.scope(core_mode="vector"):\n    count = tl.load(x_ptr + 1).to(tl.int32)\n'
        'with al.scope(core_mode="cube"):\n    for copy in range(count + 1):\n        ' + SQUARE
    )
    with pytest.raises(
        Misplaced, match=r"small.py:\d+: add: expected a value of this core, got one that only the other"
    ):
        run_source(kernel(body))


@pytest.mark.parametrize("call", ['al.sync_block_all("all", 0)', "tl.histogram(row, 4)", "dl.extern_call()"])
def test_unsupported_builtins_of_mix_kernels_raise_by_name(run_source, call: str) -> None:
    name = call[3 : call.index("(")]
    for body in (SQUARE + call, SQUARE + f"unused = {call}"):
        with pytest.raises(Unsupported, match=rf"\.{name}: expected a builtin that the simulator supports"):
            run_source(kernel(body))


def test_static_asserts_are_checked_in_mix_kernels(run_source) -> None:
    (finding,) = run_source(kernel(SQUARE + "tl.static_assert(SIZE == 8, 'size')")).findings
    assert "AssertionError: tl.static_assert: size" in finding.message


SET = 'al.sync_block_set("{}", "{}", {})\n'
WAIT = 'al.sync_block_wait("{}", "{}", {})\n'
CUBE_TO_VECTOR = ("cube", "vector", 5)
VECTOR_TO_CUBE = ("vector", "cube", 6)


def test_flags_order_both_directions_and_are_told(run_source) -> None:
    body = (
        "tl.store(y_ptr + index, tl.load(x_ptr + index) * 0 + 1, mask=row[:, None] < 16)\n"
        + (SET + WAIT).format(*VECTOR_TO_CUBE, *VECTOR_TO_CUBE)
        + "one = tl.load(y_ptr + index).to(tl.float16)\n"
        + "acc = tl.dot(one, one)\ntl.store(y_ptr + 256 + index, acc)\n"
        + (SET + WAIT).format(*CUBE_TO_VECTOR, *CUBE_TO_VECTOR)
        + "tl.store(y_ptr + 512 + index, tl.load(y_ptr + 256 + index) + 1)"
    )
    told: list[Event] = []
    result = run_source(kernel(body, "expected[0] = 1; expected[1] = 16; expected[2] = 17"), observers=[told.append])
    assert_exact(result)
    flags = [event for event in told if isinstance(event, FlagWaited)]
    assert sorted((event.actor.name.kind, event.actor.name.sub_vec_id, event.event) for event in flags) == [
        ("AIC", None, 6),
        ("AIV", 0, 5),
        ("AIV", 1, 5),
    ]
    assert [len(event.sets) for event in flags] == [2, 1, 1]
    assert [event.actor.name.sub_vec_id for event in flags[0].sets] == [0, 1]
    assert sum(isinstance(event, FlagSet) for event in told) == 3


def test_a_tile_is_sent_once_and_received_by_both_vector_cores(run_source) -> None:
    told: list[Event] = []
    assert_exact(
        run_source(
            kernel(SQUARE + "tl.store(y_ptr + index, acc + 1)", "expected[0] = x @ x + 1"), observers=[told.append]
        )
    )
    (sent,) = [event for event in told if isinstance(event, TileSent)]
    received = [event for event in told if isinstance(event, TileReceived)]
    assert (sent.actor.name.kind, sent.receiver) == ("AIC", "vector")
    assert [(event.actor.name.sub_vec_id, event.sent is sent) for event in received] == [(0, True), (1, True)]
    assert told.index(sent) < told.index(received[0])


def test_a_flag_that_nobody_sets(run_source) -> None:
    body = SQUARE + "if core > 5:\n    " + SET.format(*CUBE_TO_VECTOR) + WAIT.format(*CUBE_TO_VECTOR)
    (finding,) = run_source(kernel(body), cores=1).findings
    assert finding.kind == "Deadlock"
    assert finding.causes[0].name == "flag not set"
    assert (
        "rank 0 core 0 AIV 1 program 0 waits for the flag of event 5 (cube to vector) at small.py:" in finding.message
    )
    assert ': `al.sync_block_wait("cube", "vector", 5)`' in finding.message
    assert "takes a set of its AIC for every wait; rank 0 core 0 AIC program 0 has ended" in finding.message
    assert_exact(run_source(kernel(body.replace("core > 5", "core < 5")), cores=1))


def test_the_cube_needs_the_flag_of_both_vector_cores(run_source) -> None:
    body = SQUARE + "if sub_vec_id() == 0:\n    " + SET.format(*VECTOR_TO_CUBE) + WAIT.format(*VECTOR_TO_CUBE)
    (finding,) = run_source(kernel(body), cores=1).findings
    assert finding.kind == "Deadlock"
    assert "rank 0 core 0 AIC program 0 waits for the flag of event 6 (vector to cube) at small.py:" in finding.message
    assert "takes a set of both its AIVs for every wait" in finding.message


def test_a_flag_that_is_left_when_the_launch_ends(run_source) -> None:
    body = SQUARE + SET.format(*CUBE_TO_VECTOR) * 2 + WAIT.format(*CUBE_TO_VECTOR)
    (finding,) = run_source(kernel(body, grid=2), cores=2).findings
    assert (finding.kind, finding.event, finding.count, finding.sender) == ("LeftoverFlag", 5, 1, "cube")
    assert "rank 0 core 0 AIC program 0 at small.py:" in finding.message
    assert "kernel: event 5 (cube to vector) is still set when the launch ends: its AIV 0 has not" in finding.message
    assert_exact(run_source(kernel(body + WAIT.format(*CUBE_TO_VECTOR)), cores=1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (SET.format("cube", "vector", 16), "al.sync_block_set: expected an event from 0 to 15, got 16"),
        (WAIT.format("cube", "vector", -1), "al.sync_block_wait: expected an event from 0 to 15, got -1"),
        (SET.format("cube", "cube", 1), "expected 'cube' and 'vector' as sender and receiver, got 'cube' and 'cube'"),
    ],
)
def test_flags_that_do_not_exist(run_source, call: str, message: str) -> None:
    (finding,) = run_source(kernel(SQUARE + call)).findings
    assert finding.kind == "KernelError"
    assert message in finding.message


def test_a_barrier_that_the_cube_does_not_reach(run_source) -> None:
    body = SQUARE + 'with al.scope(core_mode="vector"):\n    libshmem_device.barrier_all()'
    (finding,) = run_source(kernel(body, grid=2), cores=2).findings
    assert finding.causes[0].name == "barrier count mismatch"
    assert "arrived: rank 0: 4 of 6; not there: rank 0 core 0 AIC program 0 has ended" in finding.message
    assert_exact(run_source(kernel(body.replace("barrier_all()", "barrier_all_vec()"), grid=2), cores=2))


def test_the_cube_passes_a_barrier_of_the_vector_cores(run_source) -> None:
    assert_exact(run_source(kernel(SQUARE + "libshmem_device.barrier_all_vec()", grid=2), cores=2))


def test_more_programs_than_ai_cores(run_source) -> None:
    (finding,) = run_source(kernel("libshmem_device.barrier_all()", grid=3), cores=2).findings
    assert finding.causes[0].name == "residency"
    assert "launched 3 programs of kernel on 2 cores" in finding.message
    assert_exact(run_source(kernel(SQUARE + "tl.store(y_ptr + index, acc)", "expected[0] = x @ x", grid=5), cores=2))


def test_a_vector_kernel_beside_a_mix_kernel_runs_on_all_vector_cores(run_source) -> None:
    source = kernel("libshmem_device.barrier_all()").replace(
        "    torch.npu.synchronize()",
        "    vector[(NPUUtils().get_aivector_core_num(),)]()\n    torch.npu.synchronize()",
    )
    meet = "\n\n@triton.jit\ndef vector():\n    libshmem_device.barrier_all_vec()\n"
    assert_exact(run_source(source + meet, cores=3))
    (finding,) = run_source(source.replace("core_num(),)", "core_num() + 1,)") + meet, cores=3).findings
    assert "launched 7 programs of vector on 6 cores" in finding.message


def test_which_cores_a_module_counts(tmp_path: Path, signal_module: Path) -> None:
    path = tmp_path / "module.py"
    assert core_unit_of(path) == "vector"
    assert core_unit_of(signal_module) == "vector"
    for text, unit in (
        ("def host():\n    dot()\n", "vector"),
        ("@triton.jit\ndef kernel():\n    tl.dot(a, b)\n", "AI"),
        ("@jit\ndef kernel():\n    with al.scope(core_mode='cube'):\n        pass\n", "AI"),
        ("@triton.jit(debug=True)\ndef kernel():\n    libshmem_device.barrier_all()\n", "AI"),
        ("@triton.jit\ndef kernel():\n    libshmem_device.barrier_all_vec()\n", "vector"),
        ("not Python", "vector"),
    ):
        path.write_text(text)
        assert core_unit_of(path) == unit, text
