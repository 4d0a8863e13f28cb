"""Errors of the app: of requests that are refused, and of the ERP."""

from __future__ import annotations

from collections.abc import Iterable

import jobs


class Refused(jobs.JobsError):
    """A request was refused, and nothing of it was stored.

    ``fields`` are pairs of a JSON pointer and a message.
    """

    def __init__(
        self, status: int, code: str, message: str, fields: Iterable[tuple[str, str]] = ()
    ) -> None:
        self.status, self.code, self.message = status, code, message
        self.fields = list(fields)
        super().__init__(message)


class ErpError(jobs.JobsError):
    """The ERP did not do what it was asked. ``words`` is what it said, which is never logged."""

    def __init__(self, code: str, words: str = "") -> None:
        self.code, self.words = code, words
        super().__init__(code)


class ErpUnreachable(ErpError):
    """The ERP cannot be reached, does not answer, or is out of order."""


class ErpRefused(ErpError):
    """The ERP refuses the request by one of its documented codes: nothing was done."""


class LoginRefused(ErpError):
    """The ERP refuses the agent's password."""


class SessionEnded(ErpError):
    """The session has expired, or a newer login has ended it."""


class ErpUnreadable(ErpError):
    """The answer cannot be understood: whether the request was carried out is unknown."""
