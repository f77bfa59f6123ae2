"""The order of a run: what happens before what, and what nothing orders.

checker -> clocks (vector clocks of all actors), shadow (who touched each element last), slots (writes and waits of every
signal slot), races (what a pair of accesses without order is called), proof (whether one run speaks for all schedules)

An observer of `fusegen.sim.events`: it changes nothing. docs/proof.md states what it proves and what it assumes.
"""
