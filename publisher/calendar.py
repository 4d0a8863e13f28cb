"""The calendar of a brand: what appears on each day, on the clocks of its zone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber, TruncDate

from jobs import flow
from publisher import channels, config, localtime, plan_verbs, times, verbs
from publisher.clock import now
from publisher.models import Account, Brand, Plan, Publication, Slot
from publisher.windows import scope_of

_DAY = timedelta(days=1)
_MOVABLE = (Plan.Status.DRAFT, Plan.Status.READY, Plan.Status.APPROVED, Plan.Status.SCHEDULED)
LOOKS = {
    "draft": "paused", "ready": "pending", "approved": "active", "scheduled": "queued",
    "published": "succeeded", "pending": "queued", "running": "running",
    "completed": "succeeded", "failed": "failed",
}  # fmt: skip
"""How the badge of each status looks, of plans and of publications."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A slot of a plan, or a publication without a plan."""

    what: str
    """``slot`` or ``publication``."""
    id: UUID
    at: datetime
    """On the clocks of the brand."""
    title: str
    account: Account
    look: str
    status: Any
    is_movable: bool
    waits: bool = False
    """Whether it falls into a blackout window."""


@dataclass(slots=True)
class Day:
    """A day with its entries, the windows that close it, and the posting times that are free."""

    date: date
    entries: list[Entry] = field(default_factory=list)
    more: int = 0
    """How many further entries it has."""
    closed: list[tuple[str, str, str]] = field(default_factory=list)
    """From, until, and the scope of each window."""
    free: list[datetime] = field(default_factory=list)


def week_of(day: date) -> tuple[date, date]:
    """Return the first day of the week, a Monday, and the day after its last."""
    first = day - day.weekday() * _DAY
    return first, first + 7 * _DAY


def month_of(day: date) -> tuple[date, date]:
    """Return the Monday on or before the first of the month, and the Monday after its last day."""
    first = day.replace(day=1)
    last = (first + 31 * _DAY).replace(day=1) - _DAY
    return week_of(first)[0], week_of(last)[1]


def today(brand: Brand) -> date:
    """Return the day that it is for a brand."""
    return now().astimezone(ZoneInfo(brand.time_zone)).date()


def days_of(
    brand: Brand, first: date, end: date, *, channel: str = "", each: int, with_posts: bool = True
) -> list[Day]:
    """Return the days from the first to that before the end, with up to ``each`` entries a day.

    ``with_posts``: also publications that belong to no plan.
    """
    zone = ZoneInfo(brand.time_zone)
    found = {first + n * _DAY: Day(first + n * _DAY) for n in range((end - first).days)}
    begin, until = (datetime.combine(one, time(), zone).astimezone(UTC) for one in (first, end))
    accounts = {one.pk: one for one in _accounts(brand, channel)}
    closed = flow.blackouts(_scopes(brand, accounts.values()), begin, until)
    moment = now()
    shown, totals = _entries(accounts, begin, until, zone, each, with_posts, moment)
    for one in sorted(shown, key=lambda entry: (entry.at, entry.title, entry.id)):
        entries = found[one.at.date()].entries
        if len(entries) < each:
            entries.append(_in_windows(one, closed))
    for day in found.values():
        day.more = totals[day.date] - len(day.entries)
        day.closed = list(_closed_on(day.date, zone, closed))
        day.free = list(_free_on(brand, day, zone, closed, moment))
    return list(found.values())


def _accounts(brand: Brand, channel: str) -> QuerySet[Account]:
    rows = Account.objects.filter(brand=brand).defer("token", "refresh_token", "app_password")
    return rows.filter(channel=channel) if channel else rows


def _scopes(brand: Brand, accounts: Iterable[Account]) -> list[str]:
    """Return what may be closed for posts of the accounts."""
    names = {one.channel for one in accounts}
    kinds = [f"kind:publisher.{one}" for one in channels.names() if one in names]
    return [f"queue:{config.QUEUE}", scope_of(brand), *kinds]


def _entries(
    accounts: dict[UUID, Account], begin: datetime, end: datetime, zone: ZoneInfo, each: int,
    with_posts: bool, moment: datetime,
) -> tuple[list[Entry], Counter[date]]:  # fmt: skip
    """Return up to so many entries of each kind for a day, and how many each day has."""
    slots = Slot.objects.filter(account__in=accounts, at__gte=begin, at__lt=end)
    slots = slots.select_related("plan", "publication")
    posts = Publication.objects.filter(
        account__in=accounts, scheduled_at__gte=begin, scheduled_at__lt=end, type="publish",
        plan_version=None,
    ).exclude(reason=Publication.Reason.CANCELLED).defer("handle", "error")  # fmt: skip
    totals, entries = Counter[date](), list[Entry]()
    for slot in _first_of_days(slots, "at", zone, each):
        totals[slot.day] = slot.of_day
        entries.append(_of_slot(slot, accounts[slot.account_id], zone, moment))
    counted = Counter[date]()
    for post in _first_of_days(posts, "scheduled_at", zone, each) if with_posts else ():
        counted[post.day] = post.of_day
        entries.append(_of_post(post, accounts[post.account_id], zone, moment))
    return entries, totals + counted


def _first_of_days(rows: QuerySet[Any], name: str, zone: ZoneInfo, each: int) -> QuerySet[Any]:
    """Return the first rows of each day, with how many rows it has."""
    numbered = rows.annotate(day=TruncDate(name, tzinfo=zone)).annotate(
        of_day=Window(Count("*"), partition_by=F("day")),
        number=Window(RowNumber(), partition_by=F("day"), order_by=[name, "id"]),
    )
    found: QuerySet[Any] = numbered.filter(number__lte=each)
    return found


def _of_slot(slot: Slot, account: Account, zone: ZoneInfo, moment: datetime) -> Entry:
    post = slot.publication
    row: Plan | Publication = post or slot.plan
    is_open = slot.plan.status in _MOVABLE and slot.at > moment and not slot.is_closed
    return Entry(
        "slot", slot.pk, slot.at.astimezone(zone), slot.plan.title, account, *_state(row), is_open
    )


def _of_post(row: Publication, account: Account, zone: ZoneInfo, moment: datetime) -> Entry:
    text = row.content.get("title") or row.content.get("caption") or row.get_channel_display()
    is_open = row.status == Publication.Status.PENDING and row.scheduled_at > moment
    return Entry(
        "publication", row.pk, row.scheduled_at.astimezone(zone), str(text)[:150], account,
        *_state(row), is_open,
    )  # fmt: skip


def _state(row: Plan | Publication) -> tuple[str, Any]:
    """Return how the badge of the row looks, and what it says."""
    if isinstance(row, Publication) and row.reason == Publication.Reason.IN_DOUBT:
        return "in_doubt", row.get_reason_display()
    return LOOKS[row.status], row.get_status_display()


def _in_windows(one: Entry, closed: Sequence[flow.Cover]) -> Entry:
    """Return the entry, marked if it has to wait for the end of a window."""
    kind = f"kind:publisher.{one.account.channel}"
    waits = one.is_movable and any(
        span.begin <= one.at < span.end
        for span in closed
        if span.scope == kind or not span.scope.startswith("kind:")
    )
    return replace(one, waits=waits)


def _closed_on(
    day: date, zone: ZoneInfo, closed: Iterable[flow.Cover]
) -> Iterator[tuple[str, str, str]]:
    begin, end = (datetime.combine(one, time(), zone) for one in (day, day + _DAY))
    for span in closed:
        if span.begin < end and span.end > begin:
            first, last = max(span.begin, begin), min(span.end, end)
            until = "24:00" if last == end else f"{last.astimezone(zone):%H:%M}"
            yield f"{first.astimezone(zone):%H:%M}", until, span.scope


def _free_on(
    brand: Brand, day: Day, zone: ZoneInfo, closed: Sequence[flow.Cover], moment: datetime
) -> Iterator[datetime]:
    """Yield the posting times ahead at which nothing is planned and that no window covers."""
    taken = {one.at.replace(second=0, microsecond=0) for one in day.entries}
    everywhere = [one for one in closed if not one.scope.startswith("kind:")]
    for text in times.of_day(brand, (day.date.weekday() + 1) % 7):
        at = localtime.read(f"{day.date}T{text}", brand.time_zone).at
        is_closed = any(one.begin <= at < one.end for one in everywhere)
        if at > moment and at not in taken and not is_closed:
            yield at.astimezone(zone)


def drafts_of(brand: Brand, most: int) -> list[Plan]:
    """Return the newest open plans of a brand that have no slot yet."""
    rows = Plan.objects.filter(brand=brand, status=Plan.Status.DRAFT, slots=None)
    return list(rows.order_by("-created_at", "-id")[:most])


def move(brand: Brand, what: str, pk: UUID, day: date, *, by: Any) -> tuple[UUID, Slot | None]:
    """Move a post of a brand to another day, at the same hour on the clocks of the brand.

    Return its id, which is a new one without a plan, and its slot. Raises Refused.
    """
    zone = ZoneInfo(brand.time_zone)
    if what == "slot":
        at = Slot.objects.values_list("at", flat=True).get(pk=pk, plan__brand=brand)
        hour = at.astimezone(zone).time()
        plan_verbs.move_slot(pk, f"{day}T{hour}", by=by, zone=brand.time_zone)
        return pk, Slot.objects.get(pk=pk)
    rows = Publication.objects.filter(brand=brand).values_list("scheduled_at", flat=True)
    hour = rows.get(pk=pk).astimezone(zone).time()
    return verbs.move(pk, localtime.read(f"{day}T{hour}", brand.time_zone).at, by=by), None


def read_day(text: str) -> date | None:
    """Return the day that a text names; None if it is none, or one that has no neighbours."""
    try:
        found = date.fromisoformat(text.strip())
    except ValueError:
        return None
    return found if 1900 < found.year < 9000 else None
