"""The blackout windows as a list: 0 is Sunday there, and Monday in the platform's own windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time
from typing import Any
from zoneinfo import available_timezones

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field

from jobs import flow
from jobs.models import Blackout
from jobs.verbs import By
from publisher import channels, config, times
from publisher.errors import Fault, Refused
from publisher.models import Brand

INVALID = "fp_publisher_invalid_plan"
_TIME = r"^(?:[01]\d|2[0-3]):[0-5]\d$"
_QUEUE = f"queue:{config.QUEUE}"
_KIND = "kind:publisher."


class Window(BaseModel):
    """A time in which nothing is published: on a channel, or on all of them."""

    model_config = ConfigDict(extra="forbid")

    channel: str | None = None
    start: str = Field(pattern=_TIME)
    end: str = Field(pattern=_TIME)
    """Not part of the window; before the start, it is on the next day; the same is a whole day."""
    timezone: str = Field(default="UTC", max_length=64)
    days: list[int] = Field(default_factory=list, max_length=7)
    """Days on which it starts, 0 is Sunday; none is every day."""


def read() -> list[dict[str, Any]]:
    """Return the windows."""
    return [
        {"channel": row.scope.removeprefix(_KIND) if row.scope != _QUEUE else None, **shown(row)}
        for row in _rows()
    ]


def shown(row: Blackout) -> dict[str, Any]:
    """Return when a window is, for an answer."""
    return {
        "start": row.start.strftime("%H:%M"), "end": row.end.strftime("%H:%M"),
        "timezone": row.time_zone, "days": sorted((day + 1) % 7 for day in row.days or ()),
    }  # fmt: skip


def scope_of(brand: Brand) -> str:
    """Return the scope of the windows of a brand."""
    return f"tenant:{brand.tenant}"


def of_brand(brand: Brand) -> QuerySet[Blackout]:
    """Return the blackout windows of a brand."""
    return Blackout.objects.filter(scope=scope_of(brand), enabled=True).order_by("start", "id")


def common() -> list[tuple[Blackout, Any]]:
    """Return the windows of all brands, each with the channel that it closes, or all of them."""
    labels = dict(channels.choices())
    return [(row, labels.get(row.scope.removeprefix(_KIND), _("all channels"))) for row in _rows()]


def words(row: Blackout) -> str:
    """Return a window in words, such as ``fri 22:00-06:00 Europe/Rome``."""
    names = times.named(sorted((day + 1) % 7 for day in row.days or ()))
    span = f"{row.start:%H:%M}-{row.end:%H:%M} {row.time_zone}"
    return " ".join([*names, span])


def _rows() -> Any:
    return Blackout.objects.filter(
        Q(scope=_QUEUE) | Q(scope__startswith=_KIND), enabled=True
    ).order_by("scope", "start", "id")


def replace(windows: Sequence[Window], *, by: By, reason: str) -> None:
    """Replace all windows by these, or none of them; raise Refused with everything wrong."""
    if found := [fault for n, window in enumerate(windows) for fault in _faults(n, window)]:
        raise Refused(INVALID, *found)
    with transaction.atomic():
        for row in _rows():
            flow.delete_blackout(row.pk, by=by, reason=reason)
        for window in windows:
            flow.create_blackout(
                f"{_KIND}{window.channel}" if window.channel else _QUEUE,
                time.fromisoformat(window.start), time.fromisoformat(window.end), by=by,
                reason=reason, days=sorted((day - 1) % 7 for day in set(window.days)),
                time_zone=window.timezone,
            )  # fmt: skip


def _faults(number: int, window: Window) -> list[Fault]:
    at = f"queue.blackout_windows/{number}"
    found = []
    if window.channel is not None and window.channel not in channels.names():
        found.append(Fault(f"{at}/channel", "is none of " + ", ".join(channels.names())))
    if window.timezone not in available_timezones():
        found.append(Fault(f"{at}/timezone", "is not a known time zone"))
    found += [
        Fault(f"{at}/days/{n}", "must be between 0 (Sunday) and 6")
        for n, day in enumerate(window.days)
        if not 0 <= day <= 6
    ]
    return found
