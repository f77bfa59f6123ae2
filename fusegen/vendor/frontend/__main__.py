"""Reads a request from stdin as JSON and writes the answer to stdout: one TTIR, or one error, for each variant."""

from __future__ import annotations

import json
import sys

from fusegen.vendor.frontend.ttir import ttir_of


def main() -> None:
    """A request has the module's path, the kernel's name and, for each variant, signature and constants."""
    request = json.load(sys.stdin)
    answers = ttir_of(request["module"], request["kernel"], request["target"], request["variants"])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
