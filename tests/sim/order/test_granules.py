"""Order is checked in granules as large as all accesses allow; a smaller access is still seen for what it touches."""

from __future__ import annotations

import pytest

from tests.sim.test_timing import KERNEL


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("tl.store(x_ptr + wide, 0.0)", "tl.load(x_ptr + 3 + pair)", "elements 3 to 4 of x_ptr"),
        ("tl.load(x_ptr + 3 + pair)", "tl.store(x_ptr + wide, 0.0)", "elements 3 to 4 of x_ptr"),
        ("tl.store(x_ptr + wide, 0.0)", "tl.load(x_ptr + 127)", "element 127 of x_ptr"),
        ("tl.store(x_ptr + wide, 0.0)", "tl.load(x_ptr + 128 + pair)", None),
        ("tl.store(x_ptr + wide, 0.0)", "tl.store(x_ptr + 127 + pair, 0.0)", "element 127 of x_ptr"),
        ("tl.store(x_ptr + wide, 0.0, mask=wide < 127)", "tl.store(x_ptr + 127 + pair, 0.0)", None),
        ("tl.store(x_ptr + wide, 0.0)", "tl.load(x_ptr + 2 * wide, mask=wide > 62)", "element 126 of x_ptr"),
    ],
)
def test_a_conflict_has_the_elements_of_both(run_source, first: str, second: str, expected: str | None) -> None:
    body = f"""\
wide = tl.arange(0, 128)
pair = tl.arange(0, 2)
if core == 0:
    {first}
else:
    {second}"""
    text = KERNEL.replace("{grid}", "2").replace("{launches}", "1").replace("{body}", body.replace("\n", "\n    "))
    findings = [str(finding) for finding in run_source(text, races=True).findings]
    if expected is None:
        assert findings == []
    else:
        (finding,) = findings
        assert f" {expected} " in finding
