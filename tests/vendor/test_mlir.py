"""Generic MLIR is read into operations and written back as it was."""

from __future__ import annotations

import pytest

from fusegen.vendor.mlir import (
    MlirError,
    Operation,
    argument_attributes,
    derived,
    dictionary,
    function_types,
    parse_module,
    renamed,
    rewrite,
    split,
    used_values,
    walk,
    with_arguments,
)

TEXT = """\
"builtin.module"() ({
  "func.func"() <{arg_attrs = [{}, {tt.kind = 0 : i32}], function_type = (i32, memref<?xf16>) -> (), sym_name = "f"}> ({
  ^bb0(%arg0: i32, %arg1: memref<?xf16>):
    %0 = "arith.constant"() <{value = 8 : i32}> : () -> i32 loc("k.py":7:4)
    %1:2 = "scf.for"(%0, %arg0, %0) ({
    ^bb0(%arg2: i32):
      %2 = "arith.addi"(%arg2, %0) <{flags = #none<a>}> : (i32, i32) -> i32 loc(callsite("s.py":3:1 at "k.py":9:2))
      "scf.yield"(%2, %2) : (i32, i32) -> ()
    }) {unlikely} : (i32, i32, i32) -> (i32, i32)
    "cf.br"(%1#1)[^bb1] : (i32) -> ()
  ^bb1(%3: i32):
    "test.two"() ({
      "test.inner"() {text = "a, {b} -> (", map = affine_map<(d0) -> (d0)>} : () -> ()
    }, {
    }) : () -> ()
    "func.return"() : () -> ()
  }) {global} : () -> ()
}) : () -> ()"""


def operations(name: str) -> list[Operation]:
    return [op for op in walk(parse_module(TEXT)) if op.name == name]


def test_text_is_written_as_it_was_read() -> None:
    assert str(parse_module(TEXT)) == TEXT


def test_an_operation_has_its_parts() -> None:
    (add,) = operations("arith.addi")
    assert (add.result, add.operands, add.operand_types, add.result_types) == (
        "%2",
        ("%arg2", "%0"),
        ("i32", "i32"),
        ("i32",),
    )
    assert add.properties == {"flags": "#none<a>"}
    assert add.line == 9
    (loop,) = operations("scf.for")
    assert loop.results == ("%1#0", "%1#1")
    assert loop.attributes == {"unlikely": ""}
    assert loop.regions[0].blocks[0].arguments == (("%arg2", "i32"),)
    (branch,) = operations("cf.br")
    assert branch.successors == "^bb1"
    assert [block.label for block in operations("func.func")[0].regions[0].blocks] == ["^bb0", "^bb1"]
    assert [len(region.blocks) for region in operations("test.two")[0].regions] == [1, 0]
    assert operations("test.inner")[0].text("text") == ""
    assert operations("func.func")[0].text("sym_name") == "f"
    assert operations("func.func")[0].line == 0


def test_comments_of_blocks_are_dropped() -> None:
    commented = TEXT.replace("  ^bb1(%3: i32):", "  ^bb1(%3: i32):  // pred: ^bb0")
    assert str(parse_module(commented)) == TEXT


def test_arguments_change_with_the_type_of_the_function() -> None:
    (function,) = operations("func.func")
    assert function_types(function) == (("i32", "memref<?xf16>"), "()")
    assert argument_attributes(function) == ("{}", "{tt.kind = 0 : i32}")
    changed = with_arguments(function, [("%arg1", "memref<?xf16>")], ["{}"])
    assert changed.properties["function_type"] == "(memref<?xf16>) -> ()"
    assert changed.properties["arg_attrs"] == "[{}]"
    assert changed.regions[0].blocks[0].arguments == (("%arg1", "memref<?xf16>"),)


def test_rewriting_replaces_operations_and_values() -> None:
    module = parse_module(TEXT)
    without = rewrite(module, lambda op: () if op.name == "test.two" else (op,))
    assert [op.name for op in walk(without) if op.name.startswith("test.")] == []
    assert used_values(operations("scf.for")[0]) == {"%0", "%arg0", "%arg2", "%2"}
    assert renamed(operations("scf.for")[0], {"%0": "%9"}).operands == ("%9", "%arg0", "%9")
    assert derived("%1#1", "address") == "%address_1_1"


def test_parts_between_commas() -> None:
    assert split('a, b<c, d>, "e, f", (x) -> y') == ("a", "b<c, d>", '"e, f"', "(x) -> y")
    assert split("") == ()
    assert dictionary("a = 1 : i32, b, c.d = [1, 2]") == {"a": "1 : i32", "b": "", "c.d": "[1, 2]"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%0 = arith.constant 8 : i32", "expected an operation in generic form, got %0 = arith.constant 8 : i32"),
        ('"test.op"() : () -> ()', "expected one builtin.module in generic form, got ['test.op']"),
        ('"test.op"() -> ()', "expected the types of test.op, got  -> ()"),
        ('"test.op"(', "expected a closing bracket, got ("),
    ],
)
def test_other_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(MlirError) as caught:
        parse_module(text)
    assert str(caught.value) == message
