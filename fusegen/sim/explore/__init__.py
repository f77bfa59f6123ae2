"""Exploration: every order in which the actors of a small run can synchronise, each run once in the simulator.

run       -> explore_module, which makes runs until the search has no other
recorder  -> search (the tree of schedules), trace (what a run did, and its happens-before order)
search    -> reversals (what another run could do the other way round)

docs/proof.md says what it covers, under which bounds and assumptions.
"""
