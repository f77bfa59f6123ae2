"""Measurements: what the checks find, and what they cost. Each module is a command."""
