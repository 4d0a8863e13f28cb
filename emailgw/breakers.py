"""Circuit breakers of providers and senders."""

from __future__ import annotations

from typing import Any

import jobs
from emailgw import config
from emailgw.errors import (
    HELD,
    Down,
    Locked,
    MaybeSent,
    ProviderError,
    SenderDown,
    SenderRefused,
)
from emailgw.models import OutboxEmail


def breakers_of(row: OutboxEmail, *, is_first: bool = True) -> tuple[Any, Any]:
    """Return the circuit breakers of the email's provider and of its sender there.

    Only failures that affect all mail of a provider, or of a sender, open them; replies about a
    recipient or a content never do. A missing reply after the content counts once per email, and
    only for its sender, so that a silent provider does not put all waiting mail in doubt.
    """
    settings = config.settings()

    def breaker(name: str, counts: tuple[type[Exception], ...], trips: type[Exception]) -> Any:
        return jobs.breaker(
            name,
            threshold=settings.BREAKER_THRESHOLD,
            open_for=settings.BREAKER_OPEN_FOR,
            counts=counts,
            trips=trips,
        )

    name = f"email:{row.provider}"
    silence = (MaybeSent,) if is_first else ()
    return (
        breaker(name, (Down,), Locked),
        breaker(f"{name}:{row.company_id}", (SenderDown, *silence), SenderRefused),
    )


def wait_for_breakers(row: OutboxEmail) -> None:
    """Raise CircuitOpen if a breaker is still open, before any event is published again."""
    for breaker in breakers_of(row):
        breaker.raise_if_open(unless_due=True)


def held(row: OutboxEmail, error: ProviderError) -> BaseException | None:
    """Return how the job waits when the email is not the cause, which uses no attempt."""
    provider_breaker, sender_breaker = breakers_of(row)
    try:
        if isinstance(error, Down):
            provider_breaker.raise_if_open()
        if isinstance(error, SenderDown):
            sender_breaker.raise_if_open()
    except jobs.effects.CircuitOpen as opened:
        return opened
    if error.code in HELD:
        return jobs.Snooze(config.settings().BREAKER_OPEN_FOR, error.code)
    return None
