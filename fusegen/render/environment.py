"""The one Jinja environment, and the one call that turns a plan into a module's text."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from textwrap import indent

import jinja2

from fusegen.plan import KernelPlan
from fusegen.render.fold import fold
from fusegen.render.lower import module_view


@lru_cache(maxsize=4)
def environment(templates: Path) -> jinja2.Environment:
    """Templates below `templates`; a name that a view does not have is an error, never an empty text."""
    created = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    created.filters["nested"] = _nested
    return created


def _nested(text: str, levels: int = 1) -> str:
    """Every line one level deeper; nothing stays nothing, so that blocks may be empty."""
    return indent(text, 4 * levels * " ")


def render(plan: KernelPlan, templates: Path) -> str:
    """The module of `plan`: the same text for the same plan and templates, on every machine."""
    return fold(environment(templates).get_template("module.py.j2").render(module=module_view(plan)))
