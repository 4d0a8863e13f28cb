"""Channels: the sockets, streams and pages of an app, over the events of the feed.

::

    # publisher/realtime.py
    board = realtime.Channel("publisher.board", topics=["publisher.*"], narrow=of_brand)

    # publisher/urls.py
    urlpatterns = [path("brands/<slug:brand>/events", board.stream)]
    websocket_urlpatterns = [path("ws/publisher/<slug:brand>", board.socket)]

An app may declare its channels in any of its modules: nothing of Django's models is imported.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.http.response import HttpResponseBase

from jobs import events
from jobs.errors import ConfigError, EventError
from jobs.events import Event
from jobs.names import label_problem, name_problem
from jobs.principals import Principal
from jobs.realtime import questions
from jobs.realtime.questions import LONGEST_LIST, MOST_OF_ONE, MOST_OF_TENANT, Question, View
from jobs.realtime.refusals import NotFound

log = logging.getLogger("jobs.realtime")
Http = Callable[..., HttpResponseBase]
_KNOWN = ("ticket", "limit")


@dataclass(frozen=True, slots=True)
class Only:
    """Limit a client to some of the tenants and keys that it may see; None limits nothing."""

    tenants: Collection[str] | None = None
    keys: Collection[str] | None = None
    """Keys of events, like ``["batch:0190…"]``."""

    def __post_init__(self) -> None:
        if isinstance(self.tenants, str) or isinstance(self.keys, str):
            raise TypeError("Only takes lists of tenants and keys, not a text")


Narrow = Callable[[Principal, Mapping[str, str]], Only]


def as_dict(event: Event) -> dict[str, Any]:
    """Return the event as ``/ws/events`` shows it."""
    return {
        "position": event.position,
        "id": str(event.id),
        "topic": event.topic,
        "key": event.key,
        "tenant": event.tenant,
        "audience": event.audience,
        "payload": event.payload,
        "occurred_at": event.occurred_at.isoformat(),
    }


def _keep_alive(position: int) -> dict[str, Any]:
    return {"type": "keep-alive", "position": position}


@dataclass(frozen=True, eq=False)
class Channel:
    """Some topics of the feed in an app's own messages: a socket, a stream and a page."""

    name: str
    """Name of the channel in logs and limits, like ``publisher.board``."""
    topics: Collection[str] = field(kw_only=True)
    """Globs of the topics to show, like ``["coach.*", "import.progress"]``."""
    message: Callable[[Event], Any] = field(default=as_dict, kw_only=True)
    """Returns the message for an event, to be encoded as JSON; None leaves the event out."""
    keep_alive: Callable[[int], Any] = field(default=_keep_alive, kw_only=True)
    """Returns the first message of a socket, which is repeated after 15 quiet seconds, for the
    position to continue from; None sends nothing."""
    narrow: Narrow | None = field(default=None, kw_only=True)
    """Returns the limits of a client, for its principal and the parameters of the URL."""
    options: Collection[str] = field(default=(), kw_only=True)
    """Query parameters that ``narrow`` gets, in addition to the captures of the path."""
    since: str | Collection[str] = field(default="since", kw_only=True)
    """Query parameter with the position to start after, or several names for it."""
    transient: Collection[str] = field(default=(), kw_only=True)
    """Globs of topics that are sent live only, and not replayed."""
    needs: str = field(default=questions.NEEDED, kw_only=True)
    """Permission that an API key must have; empty for none."""
    sockets: int = field(default=MOST_OF_ONE, kw_only=True)
    """Sockets and streams that one principal may have open, over all processes."""
    page_size: int = field(default=100, kw_only=True)
    """Events per page, unless ``limit`` is given."""

    def __post_init__(self) -> None:
        if problem := name_problem(self.name):
            raise ConfigError(f"Channel: name {problem}")
        if isinstance(self.options, str):
            raise ConfigError(f"Channel {self.name!r}: options must be a list of names")
        for option in (*self._since, *self.options):
            if not option.isidentifier() or option in _KNOWN:
                raise ConfigError(f"Channel {self.name!r}: {option!r} cannot be an option")
        if not 1 <= self.sockets <= MOST_OF_TENANT:
            raise ConfigError(f"Channel {self.name!r}: sockets must be 1 to {MOST_OF_TENANT}")
        if not 1 <= self.page_size <= questions.LIMIT:
            raise ConfigError(f"Channel {self.name!r}: page_size must be 1 to {questions.LIMIT}")
        try:
            _ = self.globs, self.transient_globs
        except EventError as error:
            raise ConfigError(f"Channel {self.name!r}: {error}") from None

    @cached_property
    def _since(self) -> tuple[str, ...]:
        return (self.since,) if isinstance(self.since, str) else tuple(self.since)

    @cached_property
    def globs(self) -> tuple[str, ...]:
        return events.patterns(self.topics)

    @cached_property
    def transient_globs(self) -> tuple[str, ...]:
        return events.patterns(self.transient) if self.transient else ()

    # ---- what an app mounts

    @cached_property
    def socket(self) -> Any:
        """The WebSocket, for the ``path`` of a ``URLRouter``."""
        from jobs.realtime.sockets import Events

        return Events.as_asgi(channel=self)

    @cached_property
    def stream(self) -> Http:
        """The server-sent events, as a view for ``urlpatterns``."""
        from jobs.realtime import views

        return views.bound(views.stream, self)

    @cached_property
    def page(self) -> Http:
        """The events after a position, page by page, as a view for ``urlpatterns``."""
        from jobs.realtime import views

        return views.bound(views.page, self)

    # ---- what a listener is shown

    def question(
        self,
        asked: Mapping[str, str],
        path: Mapping[str, Any],
        who: Principal,
        last: str | None = None,
    ) -> Question:
        """Return what a request to this URL asks for; raise EventError that names a wrong option.

        ``last`` (the ``Last-Event-ID`` of a browser) takes precedence over ``since``. Calls
        ``narrow``, which may query the database.
        """
        for name in asked:
            if name not in (*self._since, *self.options, *_KNOWN):
                raise EventError(name[:50], "is no option of this channel")
        named = next((name for name in self._since if name in asked), self._since[0])
        start = last if last is not None else asked.get(named)
        size = asked.get("limit", str(self.page_size))
        only = self._only(asked, path, who)
        tenants = who.scope.tenants
        if only.tenants is not None:
            tenants = frozenset(name for name in only.tenants if who.scope.covers(tenant=name))
        view = View(
            self.globs,
            tenants,
            who.scope.queues,
            who.is_staff,
            keys=None if only.keys is None else frozenset(only.keys),
            channel=self,
        )
        seat = f"{self.name} {who.identity}"
        if who.key and "ticket" in asked:  # tickets of one key are for many people
            seat += f" {sorted(who.scope.tenants or ())}"
        return Question(
            view,
            None if start is None else questions.number(named, start, 0, questions.LONGEST),
            questions.number("limit", size, 1, questions.LIMIT),
            (
                (seat, self.sockets),
                *((f"tenant:{name}", MOST_OF_TENANT) for name in sorted(tenants or ())),
            ),
            seat=(seat, self.sockets),
        )

    def _only(self, asked: Mapping[str, str], path: Mapping[str, Any], who: Principal) -> Only:
        if self.narrow is None:
            return Only()
        given = {name: asked[name] for name in self.options if name in asked}
        for name, value in given.items():
            if problem := label_problem(value, LONGEST_LIST):
                raise EventError(name, problem)
        captured = {name: str(value) for name, value in path.items()}
        if any(label_problem(value, LONGEST_LIST) for value in captured.values()):
            raise NotFound
        return self.narrow(who, {**given, **captured})

    def is_replayed(self, topic: str) -> bool:
        """Return whether events of this topic are replayed."""
        return not (self.transient_globs and events.matches(self.transient_globs, topic))

    def text(self, event: Event) -> str | None:
        """Return the message for the event as JSON; None if it is left out."""
        try:
            made = self.message(event)
            return None if made is None else _json(made)
        except Exception:
            log.exception("channel %s cannot show the event %d", self.name, event.position)
            return None

    def rest(self, position: int) -> str | None:
        """Return the keep-alive message as JSON; None if there is none."""
        made = self.keep_alive(position)
        return None if made is None else _json(made)


def _json(value: Any) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False, separators=(",", ":"))
