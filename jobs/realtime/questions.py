"""What a listener asks for, and what of the feed he is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from jobs import events
from jobs.errors import EventError
from jobs.events import OF_BATCHES, RESERVED, Event
from jobs.names import label_problem
from jobs.operate.permissions import VIEW_JOB
from jobs.principals import Principal

if TYPE_CHECKING:
    from jobs.realtime.channels import Channel

OPTIONS = ("since", "topics", "tenant", "batch", "limit", "ticket")
NEEDED = VIEW_JOB
"""The permission for live events that API keys, staff and callers who see all tenants need."""
LONGEST = 2**63 - 1_000_000
LIMIT = 1000
"""Events that one answer to a GET holds at most."""
MOST_OF_ONE = 100
"""Listeners of one principal in a process."""
MOST_OF_TENANT = 1000
"""Listeners of one tenant in a process, and those with tickets of one principal."""
LONGEST_LIST = 2000
"""Characters of an option that names several topics or tenants."""


def may_listen(who: Principal, needs: str = NEEDED) -> bool:
    """Whether the caller may follow events: users who are not staff see those of their tenants."""
    is_staff = bool(who.user_id) and who.is_staff
    is_limited = not who.key and not is_staff and who.scope.tenants is not None
    return not needs or is_limited or who.may(needs)


@dataclass(frozen=True, slots=True)
class View:
    """What one listener is shown; listeners with equal views are sent the same words."""

    topics: tuple[str, ...] = ()
    tenants: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    is_staff: bool = False
    batch: str = ""
    keys: frozenset[str] | None = None
    channel: Channel | None = None
    """The app's channel that makes the messages; None for the platform's own."""

    def shows(self, event: Event, *, is_live: bool = True) -> bool:
        """Return whether to send this event; ``is_live`` is false in a replay."""
        if self.keys is not None and event.key not in self.keys:
            return False
        if not (is_live or self.channel is None or self.channel.is_replayed(event.topic)):
            return False
        if event.audience != "tenant" and not self.is_staff:
            return False
        if self.tenants is not None and event.tenant not in self.tenants:
            return False
        if not events.matches(self.topics, event.topic):
            return False
        if self.queues is not None and not _is_of(event, self.queues):
            return False
        return not self.batch or (
            event.key == f"batch:{self.batch}" or event.payload.get("batch") == self.batch
        )

    @property
    def tenants_to_read(self) -> list[str] | None:
        """What the feed itself can leave out, so that it need not be read."""
        return None if self.tenants is None or self.is_staff else sorted(self.tenants)


def _is_of(event: Event, queues: frozenset[str]) -> bool:
    """Whether a caller who sees these queues gets it: a batch has none, and what apps publish
    is nobody's queue."""
    if not event.topic.startswith(RESERVED) or event.topic.startswith(OF_BATCHES):
        return True
    scope = str(event.payload.get("scope", ""))
    found = event.payload.get("queue") or scope.removeprefix("queue:")
    return found in queues and (bool(event.payload.get("queue")) or scope.startswith("queue:"))


@dataclass(frozen=True, slots=True)
class Question:
    """From where on somebody wants to know, and what."""

    view: View
    since: int | None = None
    limit: int = 100
    places: tuple[tuple[str, int], ...] = ()
    """Whose places in a process a listener takes, and how many of them there are."""
    seat: tuple[str, int] | None = None
    """The same for one place that is counted over all processes."""


def question(asked: Mapping[str, str], who: Principal, since: str | None = None) -> Question:
    """What the options of an address ask for; raises EventError that names the wrong one.

    What lies outside the caller's scope is not there: a tenant that he may not see has no
    events. ``since`` goes before the option of that name: it is where a browser left off.
    """
    for name in asked:
        if name not in OPTIONS:
            raise EventError(name[:50], f"is unknown; there are {', '.join(OPTIONS[:-1])}")
    start = since if since is not None else asked.get("since")
    tenants = _tenants(_words("tenant", asked), who)
    # Pages that are shown tickets of one key may be those of many people.
    most = MOST_OF_TENANT if "ticket" in asked else MOST_OF_ONE
    return Question(
        View(
            events.patterns(_words("topics", asked)),
            tenants,
            who.scope.queues,
            who.is_staff,
            _batch(asked.get("batch", "")),
        ),
        None if start is None else number("since", start, 0, LONGEST),
        number("limit", asked.get("limit", "100"), 1, LIMIT),
        (
            (f"{who.identity} {most}", most),
            *((f"tenant:{name}", MOST_OF_TENANT) for name in sorted(tenants or ())),
        ),
    )


def _words(option: str, asked: Mapping[str, str]) -> list[str] | None:
    text = asked.get(option)
    if text is None:
        return None
    if len(text) > LONGEST_LIST:
        raise EventError(option, f"is longer than {LONGEST_LIST} characters")
    return [word.strip() for word in text.split(",")]


def _tenants(asked: Iterable[str] | None, who: Principal) -> frozenset[str] | None:
    if asked is None:
        return who.scope.tenants
    for name in asked:
        if problem := label_problem(name):
            raise EventError("tenant", problem)
    return frozenset(name for name in asked if who.scope.covers(tenant=name))


def _batch(text: str) -> str:
    try:
        return str(UUID(text)) if text else ""
    except ValueError:
        raise EventError("batch", "must be the id of a batch") from None


def number(option: str, text: str, least: int, most: int) -> int:
    """Return the option's number; raise EventError where it is none, or out of bounds."""
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise EventError(
            option, f"must be a whole number from {least} to {most}, got {text[:30]!r}"
        )
    return int(text)
