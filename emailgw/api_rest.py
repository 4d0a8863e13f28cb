"""Addresses below the gateway's that are no email's: refused in its own words, like any other."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from emailgw.api import operation, router
from emailgw.errors import Refused
from emailgw.problems import problem_of


def _nothing() -> Callable[..., HttpResponse]:
    def answer(request: HttpRequest, rest: str) -> HttpResponse:
        raise problem_of(Refused("NOT_FOUND", "there is no such email or endpoint"))

    return answer


for _number, _path in enumerate(("/emails/{path:rest}", "/email/{path:rest}")):
    for _method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        operation(
            router, _method, _path, f"email_nothing_{_number}_{_method.lower()}", needs="",
            include_in_schema=False,
        )(_nothing())  # fmt: skip
