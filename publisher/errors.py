"""Errors of the publisher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, ParamSpec, TypeVar

import jobs

Scope = Literal["key", "kind"]
P = ParamSpec("P")
T = TypeVar("T")
Action = Literal["retry", "later", "token", "permanent", "already"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field of a request."""

    field: str
    message: str
    code: str = ""
    """That of the refusal, if it is empty."""


class Refused(jobs.JobsError):
    """A request was refused, and nothing of it was stored."""

    def __init__(self, code: str, *faults: Fault) -> None:
        self.code, self.faults = code, faults
        super().__init__("; ".join(f"{f.field}: {f.message}" if f.field else f.message
                                   for f in faults))  # fmt: skip


class Faults:
    """Collects what several checks refuse, so that a caller learns everything at once."""

    def __init__(self, *codes: str) -> None:
        self._codes = codes
        """From the most to the least important; the refusal has the most important one."""
        self.found: list[Fault] = []

    def within(
        self, where: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Return what the call returns; keep what it refuses, with pointers below ``where``."""
        try:
            return call(*args, **kwargs)
        except Refused as error:
            for one in error.faults:
                path = "/".join(part for part in (where, one.field) if part)
                self.found.append(replace(one, field=path, code=one.code or error.code))
            return None

    def refusal(self) -> Refused:
        """Return the refusal of everything that was refused."""
        found = {one.code for one in self.found}
        code = next((one for one in self._codes if one in found), self._codes[-1])
        return Refused(code, *self.found)

    def check(self) -> None:
        """Raise Refused if anything was refused."""
        if self.found:
            raise self.refusal()


class ProviderError(Exception):
    """The provider has clearly refused a call. Holds codes, and nothing that a person wrote."""

    def __init__(
        self, action: Action, code: str, delay: float = 0, scope: Scope = "key", *,
        remote_id: str = "",
    ) -> None:  # fmt: skip
        self.action, self.code, self.delay, self.scope = action, code, delay, scope
        """What to do; ``later`` is for the whole account (``key``) or channel (``kind``)."""
        self.remote_id = remote_id
        """The post that is there ``already``, where the provider names it."""
        super().__init__(code)


class Unclear(Exception):
    """The provider's answer does not say whether the call had its effect."""


class Expired(Exception):
    """The post is past ``publish_until`` and its publishing step has not begun."""
