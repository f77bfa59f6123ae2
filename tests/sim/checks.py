"""What tests of the simulator assert about results and findings."""

from __future__ import annotations

import json

from fusegen.sim import RunResult
from fusegen.sim.findings import Finding, UdmaRule


def assert_exact(result: RunResult) -> None:
    """No findings, and every value bit for bit."""
    assert [str(finding) for finding in result.findings] == []
    assert result.max_abs_err == 0.0
    assert result.ok


def assert_complete(finding: Finding, *, rule: str) -> None:
    """A finding of a rule of UDMA with everything that a report needs."""
    assert isinstance(finding, UdmaRule), finding
    assert (finding.rule, finding.guide) == (rule, "1.5")
    assert finding.actor is not None
    assert finding.actor.kind == "AIV"
    assert finding.location is not None
    assert f"{finding.actor} at {finding.location}: " in finding.message
    assert finding.message.endswith("(guide 1.5)")
    assert finding.expected in finding.message
    assert json.loads(json.dumps(finding.to_json()))["kind"] == "UdmaRule"
