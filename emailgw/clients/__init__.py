"""The world outside: handing letters to providers.

Neither SMTP nor Amazon's SDK can go through ``jobs.http``, which speaks HTTP and nothing else, and
whose connections the SDK does not take. Both stay in this package, they reach only what the
project's settings name, and their errors leave it as those of ``emailgw.errors``.
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
from emailgw.letters import Letter, UnsafeLetter, checked


@dataclass(frozen=True, slots=True)
class Delivery:
    """A letter that the provider has taken."""

    message_id: str
    refused: dict[str, str] = field(default_factory=dict, repr=False)
    """Copies that it did not take, by address, with its reasons."""


def deliver(
    provider: str, letter: Letter, *, begin: Callable[[], None], is_last: bool = False
) -> Delivery:
    """The provider has taken the letter.

    Raises NotSent where it surely has not, MaybeSent where nobody knows. ``begin`` is called
    right before the content leaves; where it raises, nothing has. ``is_last`` gives up copies that
    are put off, where there is no next time.
    """
    try:
        content = checked(letter)
    except UnsafeLetter as error:
        raise NotSent("INVALID_EMAIL", str(error)) from None
    known = config.settings().provider(provider)
    # With a name of its own a backend takes nothing from the settings of Django's usual mail.
    backend: Any = import_string(known.backend)(alias=provider, **known.options)
    if isinstance(backend, SmtpBackend):
        refused = backend.hand_over(letter, content, begin, give_up_copies=is_last)
        return Delivery(letter.message_id, refused)
    begin()
    return Delivery(esp.hand_over(backend, letter))
