"""What the admin pages of the publisher share."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from jobs.admin import PlainAdmin, principal
from publisher import config
from publisher.models import Brand


class PublisherAdmin(PlainAdmin):
    """Rows of the brands that the user may see; their buttons come from the verbs."""

    is_of_platform = False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return principal(request).may(f"publisher.view_{self.opts.model_name}")

    def rows(self, request: HttpRequest) -> Any:
        rows, scope = super().rows(request), principal(request).scope
        if not scope.covers(queue=config.QUEUE):
            return rows.none()
        return rows if scope.tenants is None else rows.filter(tenant__in=scope.tenants)


def link_to(site: str, model: str, pk: object, text: object) -> Any:
    url = reverse(f"{site}:publisher_{model}_change", args=[pk])
    return format_html('<a href="{}">{}</a>', url, text)


def brand_choices(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the brands that the user may see, for a field that asks for one."""
    scope, rows = principal(request).scope, Brand.objects.order_by("name")
    if scope.tenants is not None:
        rows = rows.filter(tenant__in=scope.tenants)
    return [(one.slug, one.name) for one in rows]


def lines(values: dict[str, Any]) -> str:
    """Return values by name, one to a line; texts are shown as they are."""
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
    )
