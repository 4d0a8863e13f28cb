"""The API put together: a router of the wanted sections, and a whole NinjaAPI around it."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from django.conf import settings as django_settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import register_converter
from django.urls.converters import StringConverter
from ninja import NinjaAPI, Router
from ninja.constants import NOT_SET

from jobs import conf
from jobs.api import (
    apikeys,
    batches,
    blackouts,
    bulks,
    events,
    failures,
    jobacts,
    jobs,
    letters,
    limits,
    meters,
    numbers,
    outbox,
    platform,
    queues,
    requests,
    schedules,
    views,
    webhooks,
    workers,
)
from jobs.api import auth as logins
from jobs.api.endpoints import SHAPES, Shape, operation
from jobs.api.problem import Problem, install_problem_handlers, response
from jobs.api.sections import Section
from jobs.errors import ConfigError
from jobs.principals import Scope

VERSION = "1.0.0"
SECTIONS: Mapping[str, Section] = {
    section.name: section
    for section in (
        jobs.section,
        jobacts.section,
        batches.section,
        letters.section,
        failures.section,
        bulks.section,
        outbox.section,
        events.section,
        outbox.effects,
        outbox.circuits,
        queues.section,
        limits.section,
        meters.section,
        workers.section,
        schedules.section,
        blackouts.section,
        webhooks.section,
        views.section,
        platform.kinds,
        numbers.section,
        platform.acts,
        apikeys.section,
        platform.me,
        platform.health,
    )
}
"""Parts of the API by name, which ``include`` chooses from."""
Limit = Scope | Callable[[HttpRequest], Scope]


def build_router(
    *,
    auth: Any = None,
    throttle: Any = None,
    scope: Limit | None = None,
    include: Collection[str] | None = None,
) -> Router:
    """The API as a router; nobody unknown is let in, whatever is given.

    ``auth`` is the host's own login, in place of API keys and sessions; whom it finds has to be a
    user or a ``Principal``. ``throttle`` comes on top of the limits of the settings. ``scope``
    narrows what anybody sees. ``include`` names the sections; all, where it is not given.
    """
    for name in include or ():
        if name not in SECTIONS:
            near = difflib.get_close_matches(name, SECTIONS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"include: there is no section {name!r}{hint}")
    login = auth or logins.default()
    router = Router(auth=login, throttle=throttle or NOT_SET)
    if scope is not None:
        router.add_decorator(functools.partial(_narrowed, scope), mode="view")
    for name, section in SECTIONS.items():
        if include is None or name in include:
            router.add_router(
                "", _listening(login) if section is events.section else section.router
            )
    return router


def _listening(login: Any) -> Router:
    """The events, which a caller who shows a ticket may see as well."""
    logins = login if isinstance(login, Sequence) else [login]
    router = Router(auth=[*logins, events.Listener()])
    router.add_router("", events.section.router)
    return router


def _narrowed(scope: Limit, run: Callable[..., HttpResponseBase]) -> Callable[..., Any]:
    @functools.wraps(run)
    def view(request: HttpRequest, **path: Any) -> HttpResponseBase:
        request.jobs_scope = scope  # type: ignore[attr-defined]
        return run(request, **path)

    return view


class Api(NinjaAPI):
    """A NinjaAPI in which what no operation answers is a problem, too, and bears a request id."""

    def _get_urls(self) -> list[Any]:
        found = super()._get_urls()
        for pattern in found:
            callback = getattr(pattern, "callback", None)
            if callback is not None:
                name = getattr(pattern, "name", "")
                finished = _finished(callback, SHAPES.get(name))
                # Operations authenticate their callers; the pages about them do not.
                shows_docs = name in ("openapi-json", "openapi-view")
                pattern.callback = finished if shows_docs else login_not_required(finished)
        return found


def _finished(view: Callable[..., Any], shape: Shape | None) -> Callable[..., Any]:
    @functools.wraps(view)
    def finished(request: HttpRequest, *args: Any, **path: Any) -> HttpResponseBase:
        answer: HttpResponseBase = view(request, *args, **path)
        if answer.status_code == 405:
            headers = {"Allow": answer.get("Allow", "")}
            found = Problem(405, "method-not-allowed", headers=headers)
            answer = response(request, shape(request, found) if shape else found)
        answer["X-Request-ID"] = requests.request_id(request)
        return answer

    return finished


def build_api(
    *,
    auth: Any = None,
    throttle: Any = None,
    scope: Limit | None = None,
    include: Collection[str] | None = None,
    **options: Any,
) -> NinjaAPI:
    """A whole API, to be mounted under ``/api/v1``; options as for ``NinjaAPI``.

    The page that shows it, and its OpenAPI document, are there where ``JOBS["API_DOCS"]`` says so;
    without that, where the project runs with DEBUG.
    """
    shown = conf.settings().API_DOCS or django_settings.DEBUG
    options.setdefault("title", "Jobs")
    options.setdefault("version", VERSION)
    options.setdefault("urls_namespace", "jobs-api")
    options.setdefault("openapi_url", "/openapi.json" if shown else "")
    options.setdefault("docs_url", "/docs" if shown else "")
    api = Api(**options)
    install_problem_handlers(api)
    api.add_router("", build_router(auth=auth, throttle=throttle, scope=scope, include=include))
    return api


class Anything(StringConverter):
    """Match any path, also one with a line break, which ``path`` does not."""

    regex = r"(?s:.+)"


register_converter(Anything, "jobs_anything")


def add_rest(api: NinjaAPI, auth: Any = None) -> None:
    """Whatever else is asked of the API is a problem, shown only to known callers.

    To be called after every other router of the API has been added.
    """
    rest = Router(auth=auth or logins.default())

    def nothing() -> Callable[..., HttpResponse]:
        def answer(request: HttpRequest, rest: str) -> HttpResponse:
            raise Problem(404, "not-found", "there is no such endpoint")

        return answer

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        operation(
            rest, method, "/{jobs_anything:rest}", f"nothing_{method.lower()}", needs="",
            include_in_schema=False,
        )(nothing())  # fmt: skip
    api.add_router("", rest)
