"""What operations of the upload API have in common: the router, the owner, refusals."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Schema
from ninja.router import Router

from fileproc.errors import Refused
from fileproc.login import logins, owner_of
from fileproc.models import File
from fileproc.problems import problem_of, with_code
from jobs.api import auth, operation

BODY_LIMIT = 4_000_000
"""Bytes of a manifest of 500 files with their metadata."""
router = Router(tags=["uploads"], auth=logins())


class Owned(Schema):
    """For whom a key of several tenants asks."""

    owner: str = Field("", max_length=200)


class Part(Owned):
    """A part of a list, by offset and limit."""

    offset: int = Field(0, ge=0, le=1_000_000_000)
    limit: int = Field(50, ge=1, le=200)


def _refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def answered(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except Refused as error:
            raise problem_of(error) from None

    # Annotations are names of the module of the function, which the API would look up in this one.
    answered.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return answered


def on(
    method: str, path: str, name: str, needs: str, answer: Any, before: Any = None, **how: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an operation of the upload API; ``before`` runs outside of its transaction."""
    step = _refusing(before) if before is not None else None

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        return operation(
            router, method, path, name, needs=needs, answer=answer, shape=with_code, before=step,
            **how,
        )(_refusing(function))  # fmt: skip

    return register


def name_of(request: HttpRequest) -> str:
    """Return the name under which the caller is recorded."""
    return auth.who(request).name


def find_file(request: HttpRequest, file_id: UUID, named: str) -> File:
    """Return the caller's file; raise FILE_NOT_FOUND."""
    owner = owner_of(request, named)
    file = File.objects.shown().filter(pk=file_id, owner=owner).first()
    if file is None:
        raise Refused("FILE_NOT_FOUND", "there is no such file")
    return file
