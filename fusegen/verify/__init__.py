"""Verification: a generated module under every condition of its spec and under many schedules, in parallel.

trials    what is run: conditions, and the schedules dealt to them
campaign  runs the trials in a pool of processes
verdicts  what came out
replay    a run with a finding as a file, and the way back

Importing this package imports neither torch nor greenlet: the processes of the pool do.
"""
