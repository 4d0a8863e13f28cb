"""The same jobs as plain functions, for the rq workers that the engine is compared with."""

from __future__ import annotations

import time

from django.core.mail import EmailMultiAlternatives, get_connection

from benchmarks import records
from benchmarks.senders import email


def noop() -> None:
    records.append(records.NOOP)


def stamp(sent: float) -> None:
    records.append(records.STAMP, sent)


def sleep(seconds: float) -> None:
    time.sleep(seconds)
    records.append(records.SLEEP)


def fail() -> None:
    records.append(records.FAIL)
    raise ValueError("as told")


def mail(port: int, number: int) -> None:
    """A mail like those of the gateway, by Django's own backend."""
    asked = email(number)
    backend = "django.core.mail.backends.smtp.EmailBackend"
    message = EmailMultiAlternatives(
        asked["subject"], "Pay it soon.", "billing@acme.test", [asked["to"]],
        connection=get_connection(backend, host="127.0.0.1", port=port),
    )  # fmt: skip
    message.attach_alternative(asked["html"], "text/html")
    message.send()
