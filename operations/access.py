"""The rule of the app for ``JOBS["SCOPE"]``."""

from __future__ import annotations

from typing import Any

from django.apps import apps

from jobs.acts import Scope


def scope(user: Any) -> Scope | None:
    """Return the tenant of the user's agent; None for superusers and users without an agent."""
    if user.is_superuser or not apps.is_installed("operations"):
        return None
    rows = apps.get_model("operations", "Agent").objects.filter(user_id=user.pk)
    tenant = rows.values_list("tenant", flat=True).first()
    return Scope(tenants=frozenset({tenant})) if tenant else None
