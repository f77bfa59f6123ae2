"""Rendering: from a plan to the text of a standalone module, and from texts to files, manifest and differences."""
