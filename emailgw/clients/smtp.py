"""SMTP, told step by step: who was refused, and from when on nobody can say that nothing went."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.generator import BytesGenerator
from email.message import Message
from io import BytesIO
from typing import Any

from django.core.mail.backends.smtp import EmailBackend

from emailgw import config
from emailgw.errors import Down, MaybeSent, NotSent
from emailgw.letters import Letter

_LATER = frozenset({421, 450, 451, 452, 454})


def on_the_wire(content: Message[Any, Any]) -> bytes:
    """The content as SMTP wants it, of whatever kind Django's message is."""
    written = BytesIO()
    BytesGenerator(written, mangle_from_=False).flatten(content, linesep="\r\n")
    return written.getvalue()


class SmtpBackend(EmailBackend):
    """Django's backend, which hides refused recipients, and a way to hand over that does not."""

    def __init__(self, *, timeout: float | None = None, **kwargs: Any) -> None:
        # Without an end of its own a socket waits as long as it likes.
        patience: Any = config.settings().SEND_TIMEOUT if timeout is None else timeout
        super().__init__(timeout=patience, **kwargs)

    def hand_over(
        self,
        letter: Letter,
        content: Message[Any, Any],
        begin: Callable[[], None],
        *,
        give_up_copies: bool = False,
    ) -> dict[str, str]:
        """The server has the letter; answers the copies that it refused, with its reasons.

        Until the first byte of the content nothing can have been sent: everything that goes wrong
        before is ``NotSent``. Afterwards only an answer of the server is.
        """
        try:
            with _definite():
                self.open()
                server: Any = self.connection
                written = on_the_wire(content)
                server.ehlo_or_helo_if_needed()
                _expect(server.mail(letter.message.from_email), 250)
                refused = self._address(server, letter.envelope, give_up_copies)
                _expect(server.docmd("DATA"), 354)
            begin()
            try:
                transmit(server, written)
                code, answer = server.getreply()
            except (OSError, smtplib.SMTPException) as error:
                self._forget()
                raise MaybeSent("TIMEOUT", type(error).__name__) from error
            _judge(code, answer, accepted=250)
        finally:
            self._end()
        return refused

    def _address(
        self, server: Any, envelope: tuple[str, ...], give_up_copies: bool
    ) -> dict[str, str]:
        refused: dict[str, str] = {}
        for number, address in enumerate(envelope):
            code, answer = server.rcpt(address)
            if code in (250, 251):
                continue
            # Without its recipient there is no letter. A copy that is put off holds it up, because
            # whoever gets it now would get it again with that copy.
            if number == 0 or (code in _LATER and (code == 421 or not give_up_copies)):
                _judge(code, answer, accepted=250)
            refused[address] = f"{code} {_text(answer)}"
        return refused

    def _end(self) -> None:
        """Says good-bye; whatever is answered, the letter is gone or not."""
        if self.connection is not None:
            with suppress(OSError, smtplib.SMTPException):
                self.connection.quit()
            self._forget()

    def _forget(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = None


def transmit(server: Any, content: bytes) -> None:
    """The whole content is on its way, with the line that ends it."""
    quoted = smtplib._quote_periods(smtplib._fix_eols(content.decode("ascii")).encode("ascii"))  # type: ignore[attr-defined]
    server.send(quoted + (b"" if quoted.endswith(b"\r\n") else b"\r\n") + b".\r\n")


@contextmanager
def _definite() -> Iterator[None]:
    """Whatever goes wrong inside, the server has got nothing."""
    try:
        yield
    except NotSent:
        raise
    except smtplib.SMTPResponseException as error:
        _judge(error.smtp_code, error.smtp_error, accepted=0)
    except (TimeoutError, smtplib.SMTPServerDisconnected) as error:
        raise Down("TIMEOUT", type(error).__name__) from error
    except socket.gaierror as error:
        raise Down("DNS_ERROR", type(error).__name__) from error
    except ssl.SSLError as error:
        raise Down("NETWORK_ERROR", type(error).__name__) from error
    except (OSError, smtplib.SMTPException) as error:
        raise Down("NETWORK_ERROR", type(error).__name__) from error


def _expect(reply: tuple[int, bytes], code: int) -> None:
    _judge(*reply, accepted=code)


def _judge(code: int, answer: bytes | str, *, accepted: int) -> None:
    """Returns where the server accepts; raises what its answer means otherwise."""
    if code == accepted:
        return
    said = f"{code} {_text(answer)}"
    if code in (421, 454):
        raise Down("SMTP_DEFERRED", said)
    if code in _LATER or 400 <= code < 500:
        raise NotSent("SMTP_DEFERRED", said)
    if code == -1:
        raise Down("NETWORK_ERROR", "the server hung up")
    raise NotSent("SMTP_REJECTED", said)


def _text(answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
    return " ".join(text.split())[:200]
