"""An SMTP backend that reports refused recipients and whether the content may have been sent."""

from __future__ import annotations

import re
import smtplib
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.generator import BytesGenerator
from email.message import Message
from io import BytesIO
from typing import Any

from django.core.mail.backends.smtp import EmailBackend

from emailgw import config
from emailgw.errors import (
    Down,
    Locked,
    MaybeSent,
    NotSent,
    ProviderError,
    SenderDown,
    SenderRefused,
)
from emailgw.messages import OutgoingEmail
from emailgw.provider_text import known_words

_LOGIN = frozenset({530, 534, 535, 538})
_TOO_MUCH = 552
_CLOSING = 421
_REPLY = re.compile(rb"([2-5]\d\d)(?:([ -])([^\r\n]*))?\r?\n?\Z")
_LINE_LIMIT, _LINES = 4096, 100


@dataclass(frozen=True, slots=True)
class _Stage:
    """A stage of the SMTP dialogue, and the errors that a failure there means."""

    trouble: type[NotSent]
    """For timeouts, lost connections and temporary refusals."""
    refusal: type[NotSent]
    """For permanent refusals."""
    code: str


_CONNECT = _Stage(Down, Locked, "SMTP_NOT_AUTHORIZED")
_SENDER = _Stage(SenderDown, SenderRefused, "SMTP_SENDER_REFUSED")
_MAIL = _Stage(NotSent, NotSent, "SMTP_REJECTED")


def on_the_wire(content: Message[Any, Any]) -> bytes:
    """Return the message as bytes with CRLF line ends."""
    written = BytesIO()
    BytesGenerator(written, mangle_from_=False).flatten(content, linesep="\r\n")
    return written.getvalue()


class SmtpBackend(EmailBackend):
    """Django's SMTP backend with a method that reports refused recipients."""

    def __init__(self, *, timeout: float | None = None, **kwargs: Any) -> None:
        # Without a timeout a socket waits forever.
        patience: Any = config.settings().SEND_TIMEOUT if timeout is None else timeout
        super().__init__(timeout=patience, **kwargs)

    def hand_over(
        self,
        email: OutgoingEmail,
        content: Message[Any, Any],
        begin: Callable[[], None],
        *,
        give_up_copies: bool = False,
    ) -> dict[str, str]:
        """Send the email; return the refused copies with the server's reasons.

        Before the first byte of the content, every failure is ``NotSent``. After it, only a reply
        of the server is; anything else is ``MaybeSent``.
        """
        written = on_the_wire(content)
        try:
            with _definite(_CONNECT):
                self.open()
                server: Any = self.connection
                server.ehlo_or_helo_if_needed()
            with _definite(_SENDER):
                _check_reply(_SENDER, *server.mail(email.message.from_email))
            with _definite(_MAIL):
                refused = self._address(server, email.envelope, give_up_copies)
                _check_reply(_MAIL, *server.docmd("DATA"), accepted=3)
            self._transfer(server, written, begin)
        finally:
            self._end()
        return refused

    def _transfer(self, server: Any, written: bytes, begin: Callable[[], None]) -> None:
        """Send the content and read the reply; without a readable one raise MaybeSent."""
        try:
            begin()
            transmit(server, written)
            code, answer = final_reply(server)
        except (OSError, smtplib.SMTPException) as error:
            self._forget()
            raise MaybeSent("TIMEOUT", type(error).__name__) from None
        except ProviderError:
            self._forget()  # the server may still be reading the content
            raise
        _check_reply(_MAIL, code, answer)

    def _address(
        self, server: Any, envelope: tuple[str, ...], give_up_copies: bool
    ) -> dict[str, str]:
        refused: dict[str, str] = {}
        for number, address in enumerate(envelope):
            code, answer = server.rcpt(address)
            if code // 100 == 2:
                continue
            # A refused recipient fails the email. A deferred copy delays all of it, because a retry
            # would send it again to those that had accepted it.
            is_final = 500 <= code < 600
            if number == 0 or not (is_final or (give_up_copies and code != _CLOSING)):
                _check_reply(_MAIL, code, answer)
            refused[address] = known_words(f"{code} {_text(answer)}")
        return refused

    def _end(self) -> None:
        """Send QUIT and close the connection; a failure does not change the outcome."""
        if self.connection is not None:
            with suppress(OSError, smtplib.SMTPException):
                self.connection.quit()
        self._forget()

    def _forget(self) -> None:
        # Newer versions of Django store a connection that failed to log in separately.
        for name in ("connection", "_partial_connection"):
            if (found := getattr(self, name, None)) is not None:
                found.close()
                setattr(self, name, None)


def transmit(server: Any, content: bytes) -> None:
    """Transmit the content and the line that ends it."""
    quoted = smtplib._quote_periods(smtplib._fix_eols(content.decode("ascii")).encode("ascii"))  # type: ignore[attr-defined]
    server.send(quoted + (b"" if quoted.endswith(b"\r\n") else b"\r\n") + b".\r\n")


@contextmanager
def _definite(stage: _Stage) -> Iterator[None]:
    """Convert every failure inside to NotSent: the server has no content yet."""
    try:
        yield
    except NotSent:
        raise
    except smtplib.SMTPResponseException as error:
        raise _refusal(stage, error.smtp_code, error.smtp_error) from None
    except (TimeoutError, smtplib.SMTPServerDisconnected) as error:
        # smtplib reports a timeout as a disconnect, too.
        is_silence = isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError)
        raise stage.trouble(
            "TIMEOUT" if is_silence else "NETWORK_ERROR", type(error).__name__
        ) from None
    except socket.gaierror as error:
        raise stage.trouble("DNS_ERROR", type(error).__name__) from None
    except smtplib.SMTPException as error:  # no supported login or encryption
        raise stage.refusal(stage.code, type(error).__name__) from None
    except OSError as error:
        raise stage.trouble("NETWORK_ERROR", type(error).__name__) from None


def final_reply(server: Any) -> tuple[int, bytes]:
    """Read the reply to the content; raise MaybeSent for anything but one well-formed reply.

    ``smtplib`` accepts malformed replies. Here a wrong guess would send an email twice or lose it.
    """
    codes, lines = set[bytes](), list[bytes]()
    while len(lines) < _LINES:
        found = _REPLY.match(server.file.readline(_LINE_LIMIT + 1))
        if found is None:
            break
        code, more, text = found.groups()
        codes.add(code)
        lines.append(text or b"")
        if more != b"-":
            if len(codes) == 1 and not code.startswith(b"3"):
                return int(code), b"\n".join(lines)
            break
    raise MaybeSent("TIMEOUT", "the answer to the content cannot be read")


def _check_reply(stage: _Stage, code: int, answer: bytes | str, *, accepted: int = 2) -> None:
    """Return if the reply has the accepted first digit; raise the matching error otherwise."""
    if code // 100 != accepted:
        raise _refusal(stage, code, answer)


def _refusal(stage: _Stage, code: int, answer: bytes | str) -> NotSent:
    said = f"{code} {_text(answer)}"
    if 400 <= code < 500:
        return stage.trouble("SMTP_DEFERRED", said)
    if not 500 <= code < 600:
        return stage.trouble("NETWORK_ERROR", "an answer of the server cannot be read")
    if code in _LOGIN:
        # Once a recipient was named, the reply may concern only that one: open no circuit.
        return (NotSent if stage is _MAIL else Locked)("SMTP_NOT_AUTHORIZED", said)
    if code == _TOO_MUCH:
        return NotSent("SMTP_REJECTED", said)
    return stage.refusal(stage.code, said)


def _text(answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
    return " ".join(text.split())[:200]
