"""Posts of an account that are alike: with the same text, or in the same hour."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from django.db.models import Q

from publisher import drafts
from publisher.clock import now
from publisher.models import Account, Plan, Publication, Slot

NEAR = timedelta(days=30)
"""How far apart posts with the same text are reported."""
_HOUR = timedelta(hours=1)
_LIVE = ~Q(status=Publication.Status.FAILED) | Q(reason=Publication.Reason.IN_DOUBT)


class Alike(NamedTuple):
    """What a post has in common with another one, in words."""

    what: Literal["text", "time"]
    words: str


_OPEN = (Plan.Status.DRAFT, Plan.Status.READY, Plan.Status.APPROVED, Plan.Status.SCHEDULED)


def warnings(
    account: Account, text: str, at: datetime | None = None, *, post: Any = None, slot: Any = None
) -> list[Alike]:  # fmt: skip
    """Return what another post of the account has in common with one of this text and time.

    ``post`` and ``slot`` are those of the post itself. Without a time, only texts are compared.
    """
    around = at or now()
    posts = Publication.objects.filter(_LIVE, account=account, type="publish").exclude(pk=post)
    posts = posts.order_by("scheduled_at")
    slots = Slot.objects.filter(account=account, publication=None, plan__status__in=_OPEN)
    slots = slots.exclude(pk=slot).order_by("at")
    found = []
    if at is not None:
        zone = ZoneInfo(account.brand.time_zone)
        hour = at.astimezone(zone).replace(minute=0, second=0, microsecond=0)
        span: Any = (hour, hour + _HOUR - timedelta(microseconds=1))
        when = posts.filter(scheduled_at__range=span).values_list("scheduled_at", flat=True).first()
        when = when or slots.filter(at__range=span).values_list("at", flat=True).first()
        if when is not None:
            words = f"{account.name} has another post in this hour, {_clock(account, when)}"
            found.append(Alike("time", words))
    if text.strip():
        span = (around - NEAR, around + NEAR)
        same = posts.filter(scheduled_at__range=span, content__caption=text)
        when = same.values_list("scheduled_at", flat=True).first()
        when = when or _slot_with(slots.filter(at__range=span), text)
        if when is not None:
            words = f"{account.name} has another post with this text, {_clock(account, when)}"
            found.append(Alike("text", words))
    return found


def _slot_with(slots: Any, text: str) -> datetime | None:
    for slot in slots.select_related("plan"):
        content = slot.plan.versions.get(number=slot.plan.version).content
        if drafts.read(content).on(slot.channel).filled().caption == text:
            return slot.at  # type: ignore[no-any-return]
    return None


def _clock(account: Account, at: datetime) -> str:
    local = at.astimezone(ZoneInfo(account.brand.time_zone))
    return f"{local:%Y-%m-%d %H:%M} {account.brand.time_zone}"


def of_slot(slot: Slot, draft: drafts.Draft) -> list[str]:
    """Return what is alike about a slot whose post may still be moved."""
    if slot.is_closed:
        return []
    text = draft.on(slot.channel).filled().caption
    found = warnings(slot.account, text, slot.at, post=slot.publication_id, slot=slot.pk)
    return [one.words for one in found]
