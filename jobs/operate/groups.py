"""The groups that most projects need: who looks, operates and administers, and those of apps."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth.models import Group, Permission
from django.db import router, transaction

from jobs.operate import verbs
from jobs.operate.permissions import (
    ALL,
    ENQUEUE_JOB,
    VIEW_APIKEY,
    VIEW_AUDIT,
    VIEW_PAYLOAD,
    VIEW_WEBHOOK,
    VIEW_WORKER,
    VIEWS,
)
from jobs.principals import every_permission, full_name, groups_of_apps

VIEWER = frozenset(VIEWS) - {VIEW_AUDIT, VIEW_APIKEY, VIEW_WEBHOOK} | {VIEW_WORKER}


def groups() -> Mapping[str, frozenset[str]]:
    """Return the permissions of each group: to see, and those of the verbs that it may do.

    Operators see what apps store, but for what a verb reveals to administrators only.
    """
    every = verbs.every().values()
    allowed: dict[str, frozenset[str]] = {
        name: frozenset(p for verb in every if verb.group == name
                        for p in (verb.permission, *verb.also))
        for name in ("operator", "administrator")
    }  # fmt: skip
    of_apps = {one for one in every_permission() if one.partition(".")[2].startswith("view_")}
    operator = (
        VIEWER
        | {VIEW_AUDIT, VIEW_PAYLOAD, ENQUEUE_JOB}
        | allowed["operator"]
        | (of_apps - allowed["administrator"])
    )
    return {
        "viewer": VIEWER,
        "operator": operator,
        "administrator": ALL | operator | allowed["administrator"],
    }


def create_groups(prefix: str = "jobs ") -> dict[str, int]:
    """Create all groups with at least their permissions; return how many each lacked.

    What a project has added to a group stays.
    """
    roles = {prefix + name: wanted for name, wanted in groups().items()}
    known = {
        f"{permission.content_type.app_label}.{permission.codename}": permission
        for permission in Permission.objects.select_related("content_type")
    }
    added: dict[str, int] = {}
    with transaction.atomic(using=router.db_for_write(Group)):
        for name, wanted in {**roles, **groups_of_apps()}.items():
            group, _ = Group.objects.get_or_create(name=name)
            held = set(group.permissions.values_list("pk", flat=True))
            found = (known.get(full_name(one)) for one in sorted(wanted))
            lacking = [one for one in found if one is not None and one.pk not in held]
            group.permissions.add(*lacking)
            added[name] = len(lacking)
    return added
