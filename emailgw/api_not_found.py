"""A 404 in the gateway's error format for unknown paths below its prefixes."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from ninja import Router

from emailgw.errors import Refused
from emailgw.problems import problem_of, with_envelope
from jobs.api import auth, operation

router = Router(auth=auth.default())


def _not_found() -> Callable[..., HttpResponse]:
    def answer(request: HttpRequest, rest: str) -> HttpResponse:
        raise problem_of(Refused("NOT_FOUND", "there is no such email or endpoint"))

    return answer


for _number, _path in enumerate(("/emails/{jobs_anything:rest}", "/email/{jobs_anything:rest}")):
    for _method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        operation(
            router, _method, _path, f"email_nothing_{_number}_{_method.lower()}", needs="",
            include_in_schema=False, shape=with_envelope,
        )(_not_found())  # fmt: skip
