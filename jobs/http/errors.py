"""One family of errors for every call that goes out.

The text of an error says no more than its caller knew: a name that leads into a private network, a
port that refuses and a machine that is silent read alike. ``detail`` is for logs of one's own, and
never part of the text.
"""

from __future__ import annotations

from typing import ClassVar

from jobs.errors import JobsError


class HttpError(JobsError):
    """A call that gave no answer that may be used; which kind of failure, its class says."""

    transient: ClassVar[bool]
    """Whether the same call may go well later."""
    sent: bool = True
    """Whether a byte of the request may have left. False: the other side has not heard of it."""

    def __init__(self, message: str, detail: str = "") -> None:
        self.detail = detail
        super().__init__(message)


class Blocked(HttpError):
    """The call was not made, or not carried on: the rules of the way out forbid it."""

    transient = False
    sent = False


class TooLarge(HttpError):
    """The answer is larger than the call allows, as it came or unpacked."""

    transient = False


class TooSlow(HttpError):
    """The time for the whole call, or for one step of it, was over."""

    transient = True


class Unreachable(HttpError):
    """Nobody was reached, or the peer did not speak proper HTTP."""

    transient = True


def out_of_reach(host: str) -> str:
    """The one text for whatever keeps a connection from being made."""
    return f"{host} cannot be reached"
