"""When posts may appear: whether a time is open and free, and the posting times of a brand."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from jobs import flow
from publisher import channels, config, localtime, services
from publisher.clock import now
from publisher.errors import Fault, Refused
from publisher.models import Account, Brand, Plan, Publication, Slot

NEXT = "next"
"""What people write in place of a time for the next free posting time."""
MOST_TIMES = 100
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_AHEAD = 60
"""Days in which a free posting time is looked for."""
_LOOKS = 500
"""How many times are tried for the next possible one."""
_ITEM = re.compile(r"(?P<days>[a-z -]*?)\s*(?P<time>(?:[01]\d|2[0-3]):[0-5]\d)\Z")
_WAITING = (Publication.Status.PENDING, Publication.Status.RUNNING)
_OPEN = (Plan.Status.DRAFT, Plan.Status.READY, Plan.Status.APPROVED, Plan.Status.SCHEDULED)


@dataclass(frozen=True, slots=True)
class Tested:
    """Whether a post could run at a time."""

    runnable: bool
    in_blackout: bool
    has_collision: bool
    next_possible: datetime | None


def test(account: Account, run_at: datetime | None = None) -> Tested:
    """Return whether a post on the account could run at a time; insert nothing."""
    services.check_times(run_at)
    moment = max(run_at or now(), now())
    closed = _closed_until(account, moment)
    collides = _collides(account, moment)
    is_ready = account.status == Account.Status.CONNECTED
    return Tested(
        closed is None and not collides and is_ready, closed is not None, collides,
        _next_possible(account, moment) if is_ready else None,
    )  # fmt: skip


def _closed_until(account: Account, moment: datetime) -> datetime | None:
    is_known = account.channel in channels.names()
    kinds = [f"kind:publisher.{account.channel}"] if is_known else []
    scopes = [f"tenant:{account.tenant}", f"limit_key:{account.limit_key}", *kinds]
    return flow.closed([f"queue:{config.QUEUE}", *scopes], moment)


def _collides(account: Account, moment: datetime) -> bool:
    """Return whether another post of the account is due within the same minute."""
    start = moment.replace(second=0, microsecond=0)
    return Publication.objects.filter(
        account=account, status__in=_WAITING, run_at__gte=start,
        run_at__lt=start + timedelta(minutes=1),
    ).exists()  # fmt: skip


def _next_possible(account: Account, moment: datetime) -> datetime | None:
    """Return the first moment that is open and free; None if there is none in sight."""
    for _ in range(_LOOKS):
        if (until := _closed_until(account, moment)) is not None:
            if until == flow.NEVER:
                return None
            moment = until
        elif _collides(account, moment):
            moment = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        else:
            return moment
    return None


def parse(text: str) -> list[dict[str, object]]:
    """Return the posting times that a text lists, such as ``09:00, mon-fri 18:30``; raise Refused.

    A time without days is for every day.
    """
    found: dict[tuple[str, tuple[int, ...]], None] = {}
    for item in filter(None, (one.strip().lower() for one in re.split(r"[,;\n]", text))):
        match = _ITEM.match(item)
        numbers = days(match["days"]) if match else None
        if match is None or numbers is None:
            words = f"{item[:40]!r} is no posting time, such as 09:00 or mon-fri 18:30"
            raise Refused(localtime.INVALID, Fault("times", words))
        found[match["time"], numbers] = None
    if len(found) > MOST_TIMES:
        words = f"there may be at most {MOST_TIMES} posting times"
        raise Refused(localtime.INVALID, Fault("times", words))
    return [{"time": time, "days": list(numbers)} for time, numbers in sorted(found)]


def days(text: str) -> tuple[int, ...] | None:
    """Return the days that a text names, as numbers; None if one of its words is no day."""
    found: set[int] = set()
    for word in re.sub(r"\s*-\s*", "-", text.lower()).replace(",", " ").split():
        first, _, last = word.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            return None
        day, end = DAYS.index(first), DAYS.index(last or first)
        while day != end:
            found.add(day)
            day = (day + 1) % 7
        found.add(end)
    return tuple(sorted(found))


def words(brand: Brand) -> str:
    """Return the posting times of a brand, as ``parse`` takes them."""
    return ", ".join(
        " ".join([*named(one["days"]), str(one["time"])]) for one in brand.posting_times
    )


def named(numbers: Iterable[int]) -> list[str]:
    """Return the names of days by their numbers, where 0 is Sunday."""
    return [DAYS[number] for number in numbers]


def next_free(
    account: Account, after: datetime | None = None, taken: Collection[datetime] = ()
) -> localtime.Moment:
    """Return the next posting time of the brand that is open and free on an account.

    ``taken`` are times that are not free. Raises Refused if there is none within sixty days.
    """
    brand, start = account.brand, after or now()
    if not brand.posting_times:
        raise Refused(localtime.INVALID, Fault("at", "the brand has no posting times"))
    first = start.astimezone(ZoneInfo(brand.time_zone)).date()
    for number in range(_AHEAD + 1):
        day = first + timedelta(days=number)
        for time in of_day(brand, (day.weekday() + 1) % 7):
            moment = localtime.read(f"{day}T{time}", brand.time_zone)
            if moment.at > start and moment.at not in taken and is_free(account, moment.at):
                return moment
    raise Refused(localtime.INVALID, Fault("at", f"no posting time is free in {_AHEAD} days"))


def of_day(brand: Brand, day: int) -> Iterable[str]:
    rows = brand.posting_times
    return sorted({one["time"] for one in rows if not one["days"] or day in one["days"]})


def is_free(account: Account, moment: datetime) -> bool:
    """Return whether nothing is planned on the account in this minute, and no window covers it."""
    start = moment.replace(second=0, microsecond=0)
    planned = Slot.objects.filter(
        account=account, plan__status__in=_OPEN, at__gte=start, at__lt=start + timedelta(minutes=1)
    )
    return (
        not _collides(account, moment)
        and not planned.exists()
        and _closed_until(account, moment) is None
    )
