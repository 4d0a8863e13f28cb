"""What can be stopped: all jobs of a queue, kind, tenant, exclusive key or limit key.

Scopes are written ``queue:<name>``, ``kind:<kind>``, ``tenant:<tenant>``, ``key:<exclusive key>``
and ``limit_key:<limit key>``. ``tenant:`` alone means the jobs that have no tenant.
"""

from __future__ import annotations

import difflib
from typing import Literal, cast

from jobs import registry
from jobs.errors import InvalidOption, UnknownKind
from jobs.limits import KEY_LIMIT
from jobs.names import label_problem, name_problem

What = Literal["queue", "kind", "tenant", "key", "limit_key"]
WHATS = ("queue", "kind", "tenant", "key", "limit_key")


def checked(scope: object) -> str:
    """The scope, which makes sense; a kind's old name is turned into its present one."""
    if not isinstance(scope, str):
        raise InvalidOption("scope", f"must be text like 'queue:email', got {scope!r}")
    what, colon, name = scope.partition(":")
    if not colon or what not in WHATS:
        near = difflib.get_close_matches(what, WHATS, n=1)
        hint = f"; did you mean '{near[0]}:{name}'?" if near and colon else ""
        raise InvalidOption(
            "scope", f"{scope!r} starts with none of queue: kind: tenant: key: limit_key:{hint}"
        )
    if what == "kind":
        try:
            return f"kind:{registry.get(name).kind}"
        except UnknownKind as error:
            raise InvalidOption("scope", str(error)) from None
    if problem := _problem(cast("What", what), name):
        raise InvalidOption("scope", f"{scope!r}: the {what.replace('_', ' ')} {problem}")
    return scope


def _problem(what: What, name: str) -> str:
    if what == "queue":
        return name_problem(name)
    if what in ("key", "limit_key"):
        return label_problem(name, KEY_LIMIT) if name else "is empty"
    return label_problem(name)


def split(scope: str) -> tuple[What, str]:
    """What kind of thing the scope is about, and its name."""
    what, _, name = scope.partition(":")
    return cast("What", what), name


def spellings(scope: str) -> list[str]:
    """The scope, and where it is a kind the scopes of its old names, under which jobs may wait."""
    what, name = split(scope)
    handler = registry.find(name) if what == "kind" else None
    return [scope, *(f"kind:{old}" for old in handler.payload.aliases)] if handler else [scope]
