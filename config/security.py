"""What browsers are told about every page: nothing inline, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)


class ContentSecurityPolicy:
    """Every answer carries the policy, unless its view has given one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self.get_response(request)
        policy = getattr(settings, "CONTENT_SECURITY_POLICY", POLICY)
        if policy:
            answer.headers.setdefault("Content-Security-Policy", policy)
        return answer


def in_one_thread(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """All middleware before this runs in the request's own thread.

    Django would otherwise go to that thread and back for each of them, which takes longer than
    what most of them do: one that is synchronous makes all before it so.
    """
    return get_response
