"""The operations around posts: accounts, alerts, status, and the blackout windows."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import Count, Min, Q
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema

from jobs.api import In, auth, paging
from jobs.verbs import permissions
from publisher import alerts, verbs, windows
from publisher.api import accounts_of, problem_of, section, within
from publisher.clock import now
from publisher.errors import Refused
from publisher.models import Account, Publication


class PublisherAccountOut(Schema):
    """An account, without its tokens."""

    id: UUID
    brand: str
    channel: str
    name: str
    remote_account: str
    status: Literal["connected", "needs_reconnect", "disabled"]
    expires_at: datetime | None
    created_at: datetime


class PublisherAccountPage(Schema):
    """A page of accounts, newest first."""

    data: list[PublisherAccountOut]
    page: paging.PageOut


class PublisherAlertOut(Schema):
    """Something that people should know about an account."""

    kind: alerts.Kind
    brand: str
    channel: str
    account: UUID
    name: str
    count: int


class PublisherAlertsOut(Schema):
    """The alerts of a period."""

    period: Literal["daily", "weekly"]
    items: list[PublisherAlertOut]


class AlertsFilter(Schema):
    """Which alerts: accounts and failures, or channels on which nothing is planned."""

    period: Literal["daily", "weekly"] = "daily"


class PublisherStatusOut(Schema):
    """How the publisher is doing, for the caller's brands."""

    pending: int
    due: int
    """Pending, and their time has come."""
    running: int
    failed: int
    in_doubt: int
    oldest_due: datetime | None
    needs_reconnect: int
    """Accounts."""


class SettingsOut(Schema):
    """The settings that can be changed here."""

    blackout_windows: list[windows.Window] = Field(alias="queue.blackout_windows")


class SettingsIn(In):
    """The new settings."""

    blackout_windows: list[windows.Window] = Field(alias="queue.blackout_windows", max_length=200)
    reason: str = Field(default="asked by API", min_length=1, max_length=500)


@section.get("/accounts", "publisher_account_list", needs=verbs.VIEW_ACCOUNT,
    answer=PublisherAccountPage,
)  # fmt: skip
def account_list(request: HttpRequest, response: HttpResponse, wanted: Query[paging.PageIn]) -> Any:
    """List accounts, newest first."""
    rows = accounts_of(request).select_related("brand")
    found = paging.page(request, response, rows, wanted)
    return {**found, "data": [account_shown(row) for row in found["data"]]}


def account_shown(row: Account) -> dict[str, Any]:
    """Return an account for an answer."""
    return {
        "id": row.pk, "brand": row.brand.slug, "channel": row.channel, "name": row.name,
        "remote_account": row.remote_account, "status": row.status,
        "expires_at": row.expires_at, "created_at": row.created_at,
    }  # fmt: skip


for _verb in ("reconnect", "disable"):
    section.does(
        f"account.{_verb}", f"/accounts/{{uuid:account_id}}/{_verb}", f"account_{_verb}",
        answer=PublisherAccountOut,
        show=lambda who, target, result: account_shown(
            Account.objects.select_related("brand").get(pk=target)
        ),
    )  # fmt: skip


@section.get("/alerts", "publisher_alerts_get", needs=verbs.VIEW_ACCOUNT,
    answer=PublisherAlertsOut,
)  # fmt: skip
def alerts_get(request: HttpRequest, wanted: Query[AlertsFilter]) -> Any:
    """Get what the daily or the weekly mail would say now."""
    found = alerts.of(wanted.period, accounts_of(request))
    return {"period": wanted.period, "items": [dataclasses.asdict(one) for one in found]}


@section.get("/status", "publisher_status_get", needs=permissions.VIEW_JOB,
    answer=PublisherStatusOut,
)  # fmt: skip
def status_get(request: HttpRequest) -> Any:
    """Count what waits, runs and has failed."""
    due = Q(status=Publication.Status.PENDING, run_at__lte=now())
    found: dict[str, Any] = within(request, Publication.objects.all()).aggregate(
        pending=Count("pk", Q(status="pending")), due=Count("pk", due),
        running=Count("pk", Q(status="running")), failed=Count("pk", Q(status="failed")),
        in_doubt=Count("pk", Q(reason=Publication.Reason.IN_DOUBT)),
        oldest_due=Min("run_at", filter=due),
    )  # fmt: skip
    lost = accounts_of(request).filter(status=Account.Status.NEEDS_RECONNECT)
    return {**found, "needs_reconnect": lost.count()}


@section.get("/settings", "publisher_settings_get", needs=permissions.VIEW_BLACKOUT,
    answer=SettingsOut, by_alias=True,
)  # fmt: skip
def settings_get(request: HttpRequest) -> Any:
    """Get the blackout windows."""
    return {"queue.blackout_windows": windows.read()}


@section.post("/settings", "publisher_settings_set", needs=permissions.MANAGE_BLACKOUT,
    answer=SettingsOut, by_alias=True,
)  # fmt: skip
def settings_set(request: HttpRequest, body: SettingsIn) -> Any:
    """Replace the blackout windows, all of them or none."""
    try:
        windows.replace(body.blackout_windows, by=auth.who(request), reason=body.reason)
    except Refused as error:
        raise problem_of(error) from None
    return {"queue.blackout_windows": windows.read()}
