"""Dumps of hanging launches: reading them, decoding their slots, and naming likely causes.

paths --load_dumps--> Dump --diagnose--> Diagnosis = dumps, slots, causes
"""

from __future__ import annotations

from fusegen.dumps.diagnose import Diagnosis, diagnose
from fusegen.dumps.evidence import Cause
from fusegen.dumps.model import Dump, DumpError, load_dumps
from fusegen.dumps.values import Slot, State

__all__ = ["Cause", "Diagnosis", "Dump", "DumpError", "Slot", "State", "diagnose", "load_dumps"]
