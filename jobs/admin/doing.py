"""Doing a verb with what a form says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from jobs.admin.access import principal
from jobs.operate.verbs import Verb


def do(verb: Verb, request: HttpRequest, target: Any, given: Mapping[str, Any], **also: Any) -> Any:
    """Do the verb to the target with the values of a form, by name; return what it returns.

    Where the form asks for the target, it is that one. ``also`` are values that no field has, or
    that replace those of fields.
    """
    places = [] if verb.is_new else [given.get(verb.every_parameter[0].name, target)]
    names = dict(also)
    for one in (*verb.parameters, *([verb.reason] if verb.reason else [])):
        found = {part.name: given[part.name] for part in one.parts if part.name in given}
        if one.name in names:
            value = one.checked(names.pop(one.name))
        elif found:
            value = one.joined(found)
        else:
            continue
        if one.by_place:
            places.append(value)
        elif value is not None or one.is_required:
            names[one.name] = value
    return verb.function(*places, by=principal(request), **names)
