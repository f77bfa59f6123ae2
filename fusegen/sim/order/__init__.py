"""The order of a run: what happens before what, and what nothing orders.

checker -> clocks (vector clocks of all actors), shadow (who touched each element last),
           slots (writes and waits of every signal slot), tokens (where the text of a kernel takes those of its waits),
           proof (whether one run speaks for all schedules)
races   -> kinds: what two accesses or signals without order are called, and what would have ordered them

An observer of `fusegen.sim.events`: it changes nothing. docs/proof.md states what it proves and what it assumes.
"""
