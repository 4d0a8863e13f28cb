"""What docstrings tell people: help texts of commands, summaries of operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def summary(function: Callable[..., Any]) -> str:
    """Return the first paragraph of the docstring on one line; nothing where there is none."""
    paragraph, _, _ = (inspect.getdoc(function) or "").partition("\n\n")
    return " ".join(paragraph.split())
