"""The three groups that most projects need: who looks, who operates, who administers."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth.models import Group, Permission
from django.db import router, transaction

from jobs.principals import ALL, VIEWS

VIEWER = frozenset(VIEWS) - {"view_audit", "view_apikey", "view_webhook"} | {"view_worker"}
OPERATOR = VIEWER | {
    "view_audit",
    "view_payload",
    "enqueue_job",
    "edit_job",
    "retry_job",
    "replay_job",
    "cancel_job",
    "run_bulk",
    "resolve_deadletter",
    "resolve_doubt",
    "publish_outbox",
    "pause_queue",
    "save_view",
    "share_view",
}
GROUPS: Mapping[str, frozenset[str]] = {
    "viewer": VIEWER,
    "operator": OPERATOR,
    "administrator": ALL,
}


def create_groups(prefix: str = "jobs ") -> dict[str, int]:
    """The groups exist with at least these permissions; answers how many each lacked.

    What a project has added to a group stays.
    """
    known = {
        permission.codename: permission
        for permission in Permission.objects.filter(content_type__app_label="jobs")
    }
    added: dict[str, int] = {}
    with transaction.atomic(using=router.db_for_write(Group)):
        for name, wanted in GROUPS.items():
            group, _ = Group.objects.get_or_create(name=prefix + name)
            held = set(group.permissions.values_list("codename", flat=True))
            lacking = [known[code] for code in sorted(wanted - held) if code in known]
            group.permissions.add(*lacking)
            added[prefix + name] = len(lacking)
    return added
