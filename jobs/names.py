"""The grammar of kinds, queues, tenants and tags."""

from __future__ import annotations

import re

NAME_LIMIT = 120
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:\-]*\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def name_problem(value: object) -> str:
    """Why this cannot name a kind or a queue; empty when it can."""
    if not isinstance(value, str):
        return f"must be text, got {type(value).__name__}"
    if len(value) > NAME_LIMIT:
        return f"is longer than {NAME_LIMIT} characters"
    if not _NAME.match(value):
        return f"{value!r} may only have letters, digits and . : _ - and starts with none of . : -"
    return ""


def label_problem(value: object, limit: int = NAME_LIMIT) -> str:
    """Why this cannot be a tenant or a tag; empty when it can."""
    if not isinstance(value, str):
        return f"must be text, got {type(value).__name__}"
    if len(value) > limit:
        return f"is longer than {limit} characters"
    if _CONTROL.search(value):
        return "contains a control character or a lone surrogate"
    return ""
