"""Runs built kernels: `python -m fusegen.vendor.native`, a request on stdin, a line on stdout for each run that ends.

Native code can end this process or never come back from a loop. Then the line is missing: whoever asked knows which run
it was. faulthandler ends a run after its time, also in native code.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from fusegen.errors import FusegenError
from fusegen.sim import Finding, run_module
from fusegen.sim.host.programs import MakePrograms
from fusegen.vendor.native.programs import Library, NativePrograms


def main() -> None:
    """A request has the module with its target, how its kernel was built, the seconds that a run may take, and runs.

    The file `trace` tells afterwards which program has run last, and from which line on.
    """
    request = json.load(sys.stdin)
    module = Path(request["module"])
    make = partial(
        NativePrograms,
        module=module,
        parameters=request["parameters"],
        libraries=[Library(each["variant"], Path(each["path"])) for each in request["libraries"]],
        is_mix=request["is_mix"],
        trace=os.open(request["trace"], os.O_WRONLY),
    )
    run_module_once = partial(_answer, module, make, request["target"])
    for run in request["runs"]:
        faulthandler.dump_traceback_later(request["seconds"], exit=True)
        answer = run_module_once(run)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(answer), flush=True)


def _answer(module: Path, make: MakePrograms, target: str, run: Mapping[str, Any]) -> dict[str, Any]:
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            result = run_module(module, target=target, programs=make, **run)
    except FusegenError as error:
        return {"findings": [(type(error).__name__, str(error), 0)], "max_abs_err": None, "slots": []}
    details = "\n".join(line for line in printed.getvalue().splitlines() if line)
    return {
        "findings": [_described(finding, details) for finding in result.findings],
        "max_abs_err": result.max_abs_err,
        "slots": list(result.dumps),
    }


def _described(finding: Finding, details: str) -> tuple[str, str, int]:
    """Kind, message and line of a finding; wrong values with what the ranks have printed about their first one."""
    message = f"{finding.message}\n{details}" if finding.kind == "WrongValues" and details else finding.message
    return finding.kind, message, finding.location.line if finding.location else 0


if __name__ == "__main__":
    main()
