"""Errors of the publisher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import jobs

Scope = Literal["key", "kind"]
Action = Literal["retry", "later", "token", "permanent", "already"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field of a request."""

    field: str
    message: str


class Refused(jobs.JobsError):
    """A request was refused, and nothing of it was stored."""

    def __init__(self, code: str, *faults: Fault) -> None:
        self.code, self.faults = code, faults
        super().__init__("; ".join(f"{f.field}: {f.message}" if f.field else f.message
                                   for f in faults))  # fmt: skip


class ProviderError(Exception):
    """The provider has clearly refused a call. Holds codes, and nothing that a person wrote."""

    def __init__(self, action: Action, code: str, delay: float = 0, scope: Scope = "key") -> None:
        self.action, self.code, self.delay, self.scope = action, code, delay, scope
        """What to do; ``later`` is for the whole account (``key``) or channel (``kind``)."""
        super().__init__(code)


class Unclear(Exception):
    """The provider's answer does not say whether the call had its effect."""


class Expired(Exception):
    """The post is past ``publish_until`` and its publishing step has not begun."""
