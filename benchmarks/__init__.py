"""What the project measures of itself; each module is a program: `python -m benchmarks.NAME`."""
