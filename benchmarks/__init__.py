"""Measured comparisons, run by hand: `python -m benchmarks.NAME`."""
