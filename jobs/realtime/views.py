"""The stream and the page of a channel, as views of Django."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET

from jobs.api import problem, requests, throttle
from jobs.api.problem import Problem
from jobs.realtime import access, streams
from jobs.realtime.answers import TROUBLES, answer
from jobs.realtime.channels import Channel
from jobs.realtime.questions import Question, View
from jobs.realtime.refusals import NobodyKnown

Path = Mapping[str, Any]
Act = Callable[[Channel, HttpRequest, Path], HttpResponseBase]


def bound(act: Act, channel: Channel) -> Callable[..., HttpResponseBase]:
    """Return the channel's view, whose troubles are problems in JSON, as those of the API."""

    @login_not_required  # the channel authenticates
    @require_GET
    @wraps(act)
    def view(request: HttpRequest, **path: Any) -> HttpResponseBase:
        try:
            requests.check_text(request, dict(path))
            response = act(channel, request, path)
        except Exception as error:
            response = problem.answer(request, _problem(error))
        response["X-Request-ID"] = requests.request_id(request)
        return response

    return view


def page(channel: Channel, request: HttpRequest, path: Path) -> HttpResponseBase:
    """Answer with the next events, and the position behind which the others are."""
    asked = _asked(channel, request, path)
    found, position = streams.page(asked)
    texts = [text for event in found if (text := channel.text(event)) is not None]
    response = JsonResponse({})
    response.content = f'{{"data":[{",".join(texts)}],"next":{position}}}'.encode()
    response["Cache-Control"] = "no-store"
    return response


def stream(channel: Channel, request: HttpRequest, path: Path) -> HttpResponseBase:
    """Answer with everything after a position, and all that follows."""
    if not isinstance(request, ASGIRequest):
        raise Problem(501, "no-stream", "only an ASGI server streams")
    last = request.headers.get("Last-Event-ID", "") or None

    def again() -> View | None:
        anew = access.request_again(request)
        who = access.principal_of(anew, channel.needs)
        return None if who is None else channel.question(request.GET.dict(), path, who, last).view

    return streams.stream(_asked(channel, request, path, last), again)


def _asked(channel: Channel, request: HttpRequest, path: Path, last: str | None = None) -> Question:
    who = access.principal_of(request, channel.needs)
    if who is None:
        throttle.check_refused(request)
        throttle.refuse(request)
        raise NobodyKnown
    throttle.take("read", who.identity)
    return channel.question(request.GET.dict(), path, who, last)


def _problem(error: Exception) -> Exception:
    """Return the trouble as a problem; what is none stays what it is."""
    if isinstance(error, requests.Unusable):
        return Problem(error.status, error.code, error.message, pointer=error.pointer)
    if not isinstance(error, TROUBLES) or problem.of(error) is not None:
        return error
    found = answer(error)
    wait = {"Retry-After": "2"} if found.status in (429, 503) else {}
    return Problem(found.status, found.kind, found.detail, headers=wait)
