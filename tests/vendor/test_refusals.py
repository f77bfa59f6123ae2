"""What the bridge cannot carry over faithfully is refused by name, with its line; its clean twin compiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.vendor.bridge.lowering import lower_markers
from fusegen.vendor.bridge.refusals import TokenOnPointerTensor, UnknownMarker
from fusegen.vendor.mlir import Operation, parse_module
from tests.vendor.kernels import FIRST_LINE, bridged, findings, small_module

OFFSETS = "offsets = tl.arange(0, SIZE)\n"
REFUSED = {
    "a pointer chosen by a condition": (
        """
        if rank == 0:
            pointer = a_ptr
        else:
            pointer = b_ptr
        tl.store(pointer + offsets, offsets.to(tl.float16))
        """,
        1,
        "NotBridged: PointerChosenByCondition: a pointer comes out of an select",
        "(choose the offset instead, or put the accesses into the branches)",
    ),
    "a loop pointer rebound to another rank's memory": (
        """
        pointer = a_ptr
        for step in range(N):
            tl.store(b_ptr + offsets, tl.load(pointer + offsets))
            pointer = dl.symm_at(a_ptr, step)
        """,
        4,
        "NotBridged: PointerRebound: the pointer that a loop carries is rebound to another one",
        "(give the pointer of the loop's body a name of its own)",
    ),
    "a loop pointer rebound to another argument": (
        """
        pointer = a_ptr
        for step in range(N):
            tl.store(pointer + offsets, offsets.to(tl.float16))
            pointer = b_ptr
        """,
        2,
        "NotBridged: PointerRebound: the pointer that a loop carries is rebound to another one",
        "(give the pointer of the loop's body a name of its own)",
    ),
    "an address made of a number": (
        """
        address = (N + 4096).to(tl.int64).to(tl.pointer_type(tl.int64))
        dl.notify(address, rank, 1)
        """,
        2,
        "NotBridged: AddressLost: operand 0 of aclshmem_int64_p is no address in an argument",
        "(use a pointer argument plus an offset)",
    ),
    "a value that leaves its scope": (
        """
        with al.scope(core_mode="vector"):
            tile = tl.load(a_ptr + offsets)
        tl.store(b_ptr + offsets, tile)
        """,
        2,
        "NotBridged: ScopeEscape: a value of bufferization.to_tensor is used outside of its scope",
        "(compute it before the scope, or use it inside)",
    ),
    "a scope inside of a scope": (
        """
        with al.scope(core_mode="vector"):
            with al.scope(core_mode="cube"):
                libshmem_device.fence()
        """,
        2,
        "NotBridged: ScopeMisplaced: a scope begins inside of another one",
        "",
    ),
}
CLEAN = {
    "an offset chosen by a condition": """
        start = 0
        if rank == 0:
            start = SIZE
        tl.store(a_ptr + start + offsets, offsets.to(tl.float16))
        """,
    "a loop pointer that moves on": """
        pointer = dl.symm_at(a_ptr, rank)
        for step in range(N):
            tl.store(pointer + offsets, offsets.to(tl.float16))
            pointer += SIZE
        """,
    "a block pointer that moves on": """
        block = tl.make_block_ptr(a_ptr, (N,), (1,), (0,), (SIZE,), (0,))
        for step in range(N):
            tl.store(block, tl.load(b_ptr + offsets))
            block = tl.advance(block, (SIZE,))
        """,
    "inlined functions of a library": """
        tl.store(a_ptr + offsets, tl.rand(N, offsets).to(tl.float16))
        """,
    "a loop pointer that consumes tokens": """
        pointer = a_ptr
        for step in range(N):
            token = dl.wait(signal_ptr + step * 8, 1, "sys", "acquire", waitValue=1)
            pointer = dl.consume_token(pointer, token)
            tl.store(b_ptr + offsets, tl.load(pointer + offsets))
        """,
    "memory of another rank in a loop": """
        for step in range(N):
            remote = dl.symm_at(a_ptr, step)
            tl.store(remote + offsets, tl.load(b_ptr + offsets))
        """,
    "a scope of its own": """
        with al.scope(core_mode="vector"):
            tl.store(b_ptr + offsets, tl.load(a_ptr + offsets))
        libshmem_device.fence()
        """,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_is_refused(name: str, tmp_path: Path) -> None:
    body, line, message, advice = REFUSED[name]
    subject = small_module(tmp_path, OFFSETS + body.replace("\n        ", "\n").strip("\n"))
    source = subject.module.read_text(encoding="utf-8").splitlines()[FIRST_LINE + line - 1].strip()
    place = f"small.py:{FIRST_LINE + line}: `{source}`"
    assert findings(subject) == [f"{message} at {place} {advice}".strip()]


@pytest.mark.parametrize("name", CLEAN)
def test_clean_twins_compile(name: str, tmp_path: Path) -> None:
    subject = small_module(tmp_path, OFFSETS + CLEAN[name].replace("\n        ", "\n").strip("\n"))
    assert findings(subject) == []


MARKER = """\
"builtin.module"() ({{
  "tt.func"() <{{function_type = (tensor<4x!tt.ptr<f16>>, i32) -> (), sym_name = "f"}}> ({{
  ^bb0(%arg0: tensor<4x!tt.ptr<f16>>, %arg1: i32):
    %0 = "tt.extern_elementwise"({operand}) <{{libname = "{library}", symbol = "{symbol}"}}> : {types} loc("k.py":5:1)
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()"""


def one_call(symbol: str, operand: str, types: str, *, library: str = "fusegen_marker") -> Operation:
    return parse_module(MARKER.format(symbol=symbol, operand=operand, types=types, library=library))


def test_a_token_on_a_tensor_of_pointers_is_refused() -> None:
    symbol = "aclshmem_consume_token_half_ptr_1d"
    module = one_call(symbol, "%arg0, %arg1", "(tensor<4x!tt.ptr<f16>>, i32) -> tensor<4x!tt.ptr<f16>>")
    with pytest.raises(TokenOnPointerTensor, match=f"line 5: {symbol} on a tensor of pointers"):
        lower_markers(module)


def test_an_unknown_marker_is_refused() -> None:
    module = one_call("aclshmem_wiat_int64", "%arg1", "(i32) -> i32")
    with pytest.raises(UnknownMarker, match="line 5: aclshmem_wiat_int64 is no public function"):
        lower_markers(module)


def test_other_external_calls_pass() -> None:
    module = one_call("sqrt", "%arg1", "(i32) -> i32", library="libdevice")
    assert lower_markers(module).stand_ins == 0


def test_the_front_end_refuses_a_tensor_of_pointers_at_its_line(tmp_path: Path) -> None:
    subject = small_module(tmp_path, OFFSETS + "token = 1\nmoved = dl.consume_token(a_ptr + offsets, token)")
    (finding,) = findings(subject)
    assert finding == (
        "CompilationError: dl.consume_token: expected a pointer to one element, got <[64], pointer<fp16>> "
        f"at small.py:{FIRST_LINE + 2}: `moved = dl.consume_token(a_ptr + offsets, token)`"
    )


def test_the_bridge_keeps_the_kernels_arguments(tmp_path: Path) -> None:
    body = "remote = dl.symm_at(a_ptr, rank)\ntl.store(remote + tl.arange(0, SIZE), tl.arange(0, SIZE).to(tl.float16))"
    (kernel,) = bridged(small_module(tmp_path, body)).distributed.body
    kinds = [kind for _, kind in kernel.regions[0].blocks[0].arguments]
    assert kinds == ["memref<?xi8>"] * 2 + ["memref<?xf16>"] * 2 + ["memref<?xi64>"] + ["i32"] * 8
