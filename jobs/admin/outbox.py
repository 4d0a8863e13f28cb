"""The outbox: events on their way, those that are stuck, and what to do about them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import tables
from jobs.admin.access import missing, principal, visible
from jobs.admin.actions import Act
from jobs.admin.base import PlatformAdmin, as_uuid
from jobs.admin.components import capped, pretty
from jobs.admin.copying import api, cli
from jobs.admin.jobpage import _moves
from jobs.admin.recent import recent_acts
from jobs.engine import sql
from jobs.models import FeedHead, Outbox
from jobs.operate.permissions import VIEW_PAYLOAD
from jobs.operate.shown import public_data

STATES = ("pending", "failed", "parked", "discarded")
CAP = 10_000


def _only(*states: str) -> Any:
    def why(request: HttpRequest, row: Outbox) -> str:
        return "" if row.state in states else _("Its state does not allow it.")

    return why


@admin.register(Outbox)
class OutboxAdmin(PlatformAdmin):
    """Events that are not in the feed yet."""

    list_template = "jobs/admin/outbox.html"
    page_template = "jobs/admin/event.html"
    nouns = ("event",)
    acts = (
        Act("publish", gettext_lazy("Publish now…"),
            forbidden=_only("failed", "parked"), verb="event.publish", many=True, tone="primary",
            done=gettext_lazy("It is published next."),
            consequences=lambda r, e: [_("It is published next, with all its tries before it."),
                                       _("Subscribers may have seen it: they must bear it twice.")]),  # noqa: E501
        Act("park", gettext_lazy("Park…"),
            forbidden=_only("pending", "failed"), verb="event.park", many=True,
            done=gettext_lazy("It is parked."),
            consequences=lambda r, e: [_("It reaches nobody until it is published by hand."),
                                       _("Later events with the same key wait for it.")]),
        Act("discard", gettext_lazy("Discard…"),
            forbidden=_only("pending", "failed", "parked"), verb="event.discard", many=True,
            tone="danger",
            done=gettext_lazy("It is discarded."),
            consequences=lambda r, e: [_("It is never published."),
                                       _("Events that waited for it continue.")]),
    )  # fmt: skip

    def _rows(self, request: HttpRequest) -> Any:
        rows = visible(request, Outbox.objects.using(sql.alias()).all(), queue=None)
        return rows if principal(request).is_staff else rows.filter(audience="tenant")

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        state = request.GET.get("state", "")
        rows = self._rows(request).defer("payload", "history")
        stuck = rows.filter(state__in=["failed", "parked"]).order_by()
        wanted = rows.filter(state=state) if state in STATES else rows.exclude(state="published")
        found = tables.page(request, wanted, "-id")
        oldest = rows.filter(state="pending", held=False).order_by("id").first()
        ready = len(
            rows.filter(state="pending", held=False).order_by().values_list("pk")[: CAP + 1]
        )
        head = FeedHead.objects.using(sql.alias()).first()
        return {
            **found,
            "title": _("Outbox"),
            "rows": [{"e": e, "url": self.page_url(e.pk), "buttons": self.buttons(request, e, e.pk)}
                     for e in found["rows"]],
            "lag": oldest.occurred_at if oldest else None,
            "ready": capped(ready, CAP),
            "stuck": capped(len(stuck.values_list("pk")[: CAP + 1]), CAP),
            "position": getattr(head, "position", 0),
            "states": [{"name": s, "on": s == state} for s in STATES],
            "every": not state,
            "jd_regions": {"jd-outbox": "jobs/admin/parts/outbox.html"},
            "api": api("outbox_list"),
            "cli": cli("outbox", "list"),
        }  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        if not key.isascii() or not key.isdigit() or len(key) > 18:
            return None
        return self._rows(request).filter(pk=int(key)).first()

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        site = self.admin_site.name
        sees = not missing(request, VIEW_PAYLOAD)
        return {
            "title": row.topic,
            "e": row,
            "job": _page_of(site, row.key),
            "payload": pretty(public_data(row.payload)) if sees else None,
            "no_payload": missing(request, VIEW_PAYLOAD),
            "moves": _moves(row),
            "buttons": self.buttons(request, row, row.pk),
            "acts": recent_acts(request, site, target_kind="event", target_id=str(row.pk)),
        }


def _page_of(site: str, key: str) -> str:
    """The page of the job or the batch that an event is about, or nothing."""
    what, _colon, name = key.partition(":")
    known = what in ("job", "batch") and as_uuid(name)
    return reverse(f"{site}:jobs_{what}_change", args=[name]) if known else ""
