"""Events, as programs and pages follow them: page by page, as a stream, or with a ticket.

Beside the logins of the mount these endpoints know a caller who shows a ticket, and whom the
project's own ``jobs.realtime.AUTHENTICATORS`` know.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from ninja import Field, Header, Query, Schema, Status
from ninja.security.base import AuthBase
from pydantic import ConfigDict

from jobs.api import auth
from jobs.api.endpoints import told_problem
from jobs.api.guarding import SAFE
from jobs.api.inputs import In
from jobs.api.problem import Problem
from jobs.api.sections import Section
from jobs.errors import Denied, EventError
from jobs.names import label_problem
from jobs.principals import Principal
from jobs.realtime import hub, questions, tickets
from jobs.realtime.questions import Question, View

section = Section("events")


class Listener(AuthBase):
    """``?ticket=…``, or whatever the project itself knows its listeners by."""

    openapi_type: str = "apiKey"
    openapi_in: str = "query"
    openapi_name: str = "ticket"

    def __call__(self, request: HttpRequest) -> Principal | None:
        from jobs.realtime import access, refusals  # stands on the logins of this package itself

        if request.method not in SAFE:  # a ticket is no way to another one
            return None
        for known in access.AUTHENTICATORS:
            if known not in (access.by_key, access.by_session):
                try:
                    found = known(request)
                except refusals.Refused as error:
                    raise Problem(403, "denied", str(error)) from None
                except tickets.Away:
                    raise _later("Redis does not answer") from None
                if found is not None:
                    return found
        return None


class EventOut(Schema):
    """What happened."""

    position: int
    id: UUID
    topic: str
    key: str
    tenant: str
    audience: Literal["tenant", "staff"]
    payload: dict[str, Any]
    occurred_at: datetime


class EventsOut(Schema):
    """Events in their order, and the position behind which the others are."""

    data: list[EventOut]
    next: int


class WantedIn(Schema):
    """Which events, and from where on."""

    model_config = ConfigDict(extra="forbid")
    since: int | None = Field(None, ge=0, le=questions.LONGEST)
    topics: str | None = Field(None, max_length=2000, description="globs, with commas")
    tenant: str | None = Field(None, max_length=2000, description="tenants, with commas")
    batch: UUID | None = None
    ticket: str | None = Field(None, max_length=tickets.LONGEST)


class EventPageIn(WantedIn):
    """An events query with a limit."""

    limit: int = Field(100, ge=1, le=questions.LIMIT)


_GONE = {"410": told_problem("The position was pruned, or never reached")}
_LATER = {"503": told_problem("There are too many listeners, or something is away")}
_STREAM = {
    "200": {
        "description": "Server-sent events, without an end: `id` is a position, `event` a topic",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    "501": told_problem("The server is not one that can stream"),
}


@section.get(
    "/events", "event_list", needs="", answer=EventsOut, extra={"responses": _GONE | _LATER}
)
def event_list(request: HttpRequest, wanted: Query[EventPageIn]) -> Any:
    """What happened after a position; API keys and staff need view_job"""
    from jobs.realtime import streams

    found, position = streams.page(_question(request, _listener(request)))
    return {"data": found, "next": position}


@section.get(
    "/events/stream", "event_stream", needs="", extra={"responses": _STREAM | _GONE | _LATER},
    url_name="jobs-events-stream",
)  # fmt: skip
def event_stream(
    request: HttpRequest,
    wanted: Query[WantedIn],
    last: str | None = Header(None, alias="Last-Event-ID", max_length=30),  # type: ignore[type-arg]
) -> Any:
    """All events after a position, followed by live ones; API keys and staff need view_job"""
    from jobs.realtime import access, streams

    if not isinstance(request, ASGIRequest):
        raise Problem(501, "no-stream", "only ASGI servers stream; use GET /events")
    asked = _question(request, _listener(request), last)

    def again() -> View | None:
        who = auth.again(request, access.request_again(request))
        return _question(request, who, last).view if who and questions.may_listen(who) else None

    try:
        return streams.stream(asked, again)
    except hub.TooMany:
        raise _later("there are too many listeners") from None


class TicketIn(In):
    """For a page that shows the events of these tenants; without them, all that one sees."""

    tenants: list[str] | None = None


class TicketOut(Schema):
    """A ticket, which opens one socket, stream or page within this many seconds."""

    ticket: str | None
    seconds: int


@section.post(
    "/events/ticket", "event_ticket", needs="", answer={201: TicketOut}, secret=("ticket",)
)
def event_ticket(request: HttpRequest, body: TicketIn | None = None) -> Any:
    """A ticket for a page that can show nothing else; API keys and staff need view_job"""
    tenants = body.tenants if body else None
    for name in tenants or ():
        if wrong := label_problem(name):
            raise EventError("tenants", wrong)
    made = tickets.issue(_listener(request), tenants)
    return Status(201, {"ticket": made, "seconds": tickets.SECONDS})


def _question(request: HttpRequest, who: Principal, last: str | None = None) -> Question:
    try:
        return questions.question(request.GET.dict(), who, last or None)
    except EventError as error:
        raise Problem(422, "invalid-option", str(error), pointer=f"?{error.option}") from None


def _listener(request: HttpRequest) -> Principal:
    """Return the caller; raise Denied unless events may be shown."""
    who = auth.who(request)
    if not questions.may_listen(who):
        raise Denied(questions.NEEDED)
    return who


def _later(why: str) -> Problem:
    return Problem(503, "unavailable", f"{why}: come again later", headers={"Retry-After": "2"})
