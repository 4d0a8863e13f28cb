"""Clients of the providers that send the email.

SMTP and Amazon's SDK cannot use ``jobs.http``: it only supports HTTP, and the SDK makes its own
connections. Both are kept in this package, connect only to hosts named in the settings, and raise
errors of ``emailgw.errors``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.utils.module_loading import import_string

from emailgw import config
from emailgw.clients import esp
from emailgw.clients.smtp import SmtpBackend
from emailgw.errors import NotSent
from emailgw.messages import OutgoingEmail, UnsafeEmail, checked


@dataclass(frozen=True, slots=True)
class Delivery:
    """An email that the provider accepted."""

    message_id: str
    refused: dict[str, str] = field(default_factory=dict, repr=False)
    """Refused copies: the provider's reason for each address."""


def deliver(
    provider: str, email: OutgoingEmail, *, begin: Callable[[], None], is_last: bool = False
) -> Delivery:
    """Send the email through the provider.

    Raise NotSent if it was certainly not accepted, MaybeSent if that is unknown. ``begin`` is
    called right before the content is transmitted; if it raises, nothing is sent. On the last
    attempt (``is_last``) copies that are deferred are dropped.
    """
    try:
        content = checked(email)
    except UnsafeEmail as error:
        raise NotSent("INVALID_EMAIL", str(error)) from None
    known = config.settings().provider(provider)
    # With an alias a backend ignores Django's EMAIL_* settings.
    backend: Any = import_string(known.backend)(alias=provider, **known.options)
    if isinstance(backend, SmtpBackend):
        refused = backend.hand_over(email, content, begin, give_up_copies=is_last)
        return Delivery(email.message_id, refused)
    begin()
    return Delivery(esp.hand_over(backend, email))
