"""Which fields of payloads jobs are found by: declared by a kind, checked when it is declared.

::

    @jobs.handler(ShipOrder, searchable=("order_id", "customer.id"))
"""

from __future__ import annotations

import re
from typing import Any, get_args

from pydantic import BaseModel

LIMIT = 8
"""Most fields of one kind: each is a row per job."""
VALUE_LIMIT = 200
"""This many characters of a value are kept beside the job."""
_PATH = re.compile(r"[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*\Z")


def problem(model: type[BaseModel], paths: object) -> str:
    """Why jobs of this payload cannot be found by these fields; empty when they can."""
    if not isinstance(paths, tuple) or not all(isinstance(path, str) for path in paths):
        return "searchable must be a tuple of texts"
    if len(paths) > LIMIT or len(set(paths)) != len(paths):
        return f"searchable names at most {LIMIT} different fields"
    for path in paths:
        if not _PATH.match(path):
            return f"searchable: {path!r} is no path like 'order_id' or 'customer.id'"
        if found := _path_problem(model, path):
            return f"searchable: {found}"
    return ""


def _path_problem(model: type[BaseModel], path: str) -> str:
    from jobs.sensitive import sensitive_fields

    step, _, rest = path.partition(".")
    fields = model.model_fields
    if step not in fields:
        return f"{model.__qualname__} has no field {step!r}"
    if step in sensitive_fields(model):
        return f"{step!r} is sensitive: its values must not stand anywhere else"
    inner = _models(fields[step].annotation)
    if rest and inner:
        problems = [_path_problem(one, rest) for one in inner]
        if any("sensitive" in one for one in problems) or all(problems):
            return next(one for one in sorted(problems, key=lambda p: "sensitive" not in p) if one)
    return ""


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
