"""Errors of the app as problems of the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jobs
from jobs.api import Problem
from operations.errors import Refused

_NAMES = {"/erp_id": "/erpId"}
"""Fields of bodies that are named otherwise than the parameters of their verbs."""


def problem_of(error: jobs.JobsError) -> Exception:
    """Convert a Refused to a problem; return any other error unchanged."""
    if not isinstance(error, Refused):
        return error
    fields = [
        {"pointer": _NAMES.get(pointer, pointer), "message": words, "code": error.code}
        for pointer, words in error.fields
    ]
    made = Problem(error.status, error.code, error.message, fields=fields)
    made.audit = error.audit
    return made


@contextmanager
def refusals_as_problems() -> Iterator[None]:
    """Raise a refusal as a problem, whose transaction is rolled back."""
    try:
        yield
    except Refused as error:
        raise problem_of(error) from None
