"""Settings for all tests: property tests draw the same examples each time and ignore how long one takes."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("fusegen", derandomize=True, deadline=None)
settings.load_profile("fusegen")
