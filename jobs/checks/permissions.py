"""Permissions that nobody can have."""

from __future__ import annotations

import sys
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning, register

from jobs.checks.common import near, urls


@register("jobs")
def permissions_of_verbs_exist(**_: Any) -> list[CheckMessage]:
    """Somebody can have the permission of every verb."""
    from jobs.operate import verbs
    from jobs.principals import every_permission

    known, of_django = every_permission(), _permissions_of_models()
    found: list[CheckMessage] = []
    for verb in verbs.every().values():
        for name in (verb.permission, *verb.also):
            problem = f"verb {verb.name!r}: nobody can have the permission {name!r}"
            if name not in known:
                hint = "Name it in jobs.verbs.add_permissions, in ready() of the app."
                found.append(Error(problem, hint, id="jobs.E012"))
            elif "." in name and name not in of_django:
                hint = "Django does not know it: add it to Meta.permissions of a model of the app."
                found.append(
                    Warning(f"{problem} but superusers and API keys", hint, id="jobs.W013")
                )
    return found


@register("jobs")
def permissions_of_operations_exist(**_: Any) -> list[CheckMessage]:
    """Somebody can have the permission of every operation of the API."""
    from jobs.principals import every_permission

    list(urls())  # which imports the operations
    endpoints = sys.modules.get("jobs.api.endpoints")
    needed: dict[str, str] = endpoints.NEEDED if endpoints is not None else {}
    known = every_permission()
    return [
        Error(
            f"operation {operation!r}: nobody can have the permission {name!r}",
            near(name, known) or "Name it in jobs.verbs.add_permissions, in ready() of the app.",
            id="jobs.E014",
        )
        for name, operation in needed.items()
        if name and name not in known
    ]


def _permissions_of_models() -> frozenset[str]:
    """Return the permissions that Django makes at ``migrate``, by their full names."""
    return frozenset(
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_models()
        for codename in (
            *(f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions),
            *(codename for codename, _words in model._meta.permissions),
        )
    )
