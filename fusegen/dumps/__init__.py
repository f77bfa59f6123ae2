"""Dumps of hanging launches: reading them, decoding their slots, and naming likely causes.

paths --load_dumps--> Dump --diagnose--> Diagnosis = dumps, slots, causes

model     the file, checked when it is read
values    what the value of a slot says, by its protocol
causes    likely causes -> tiles, shared (what slots of each purpose stand at), evidence (the causes by name)
diagnose  from dumps to what they say
"""

from __future__ import annotations

from fusegen.dumps.diagnose import Diagnosis, diagnose
from fusegen.dumps.evidence import Cause
from fusegen.dumps.model import Dump, DumpError, load_dumps
from fusegen.dumps.values import Slot, State

__all__ = ["Cause", "Diagnosis", "Dump", "DumpError", "Slot", "State", "diagnose", "load_dumps"]
