"""Amazon SNS: whether a message is really its own."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from jobs import http

_HOST = re.compile(r"sns\.[a-z]{2,4}(?:-[a-z]+)+-\d\.amazonaws\.com(?:\.cn)?\Z")
_SIGNED = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": (
        "Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type",
    ),
}  # fmt: skip
_SIGNED["UnsubscribeConfirmation"] = _SIGNED["SubscriptionConfirmation"]
FRESH = timedelta(hours=1)
CERTIFICATE_LIMIT = 64 * 1024


class Forged(Exception):
    """The message is not one of SNS, or not for us. Says why, without its content."""


def verify(message: Mapping[str, Any], topics: tuple[str, ...], moment: datetime) -> None:
    """The message is signed by SNS, fresh, and of a topic of ours; raises Forged."""
    if message.get("TopicArn") not in topics:
        raise Forged("it is of no topic in EMAILGW['SNS_TOPICS']")
    fields = _SIGNED.get(str(message.get("Type")))
    if fields is None:
        raise Forged("its type is unknown")
    algorithm = {"1": hashes.SHA1, "2": hashes.SHA256}.get(str(message.get("SignatureVersion")))
    if algorithm is None:
        raise Forged("its signature's version is unknown")
    try:
        sent = datetime.fromisoformat(str(message["Timestamp"]))
        signature = base64.b64decode(str(message["Signature"]), validate=True)
    except (KeyError, ValueError):
        raise Forged("its time or its signature cannot be read") from None
    if abs(moment - sent.replace(tzinfo=sent.tzinfo or UTC)) > FRESH:
        raise Forged("it is too old")
    url = str(message.get("SigningCertURL", ""))
    if not is_of_sns(url) or not url.endswith(".pem"):
        raise Forged("its certificate lies elsewhere")
    text = "".join(f"{name}\n{message[name]}\n" for name in fields if name in message)
    try:
        key = public_key(url)
        key.verify(signature, text.encode(), PKCS1v15(), algorithm())
    except InvalidSignature:
        raise Forged("its signature is wrong") from None


def is_of_sns(url: str) -> bool:
    """Whether the address is one of SNS itself."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" and parts.netloc == parts.hostname and bool(
            _HOST.match(parts.hostname or "")
        )  # fmt: skip
    except ValueError:
        return False


@lru_cache(maxsize=16)
def public_key(url: str) -> RSAPublicKey:
    """The key of the certificate at an address of SNS; raises Forged."""
    try:
        answer = http.get(url, total=5, max_bytes=CERTIFICATE_LIMIT)
        answer.raise_for_status()
        key = x509.load_pem_x509_certificate(answer.content).public_key()
    except (http.HttpError, http.HTTPStatusError, ValueError) as error:
        raise Forged(f"its certificate cannot be had ({type(error).__name__})") from None
    if not isinstance(key, RSAPublicKey):
        raise Forged("its certificate has a key of another sort")
    return key


def confirm(message: Mapping[str, Any]) -> None:
    """The subscription of a verified message is confirmed; raises Forged."""
    url = str(message.get("SubscribeURL", ""))
    if not is_of_sns(url):
        raise Forged("it would be confirmed elsewhere")
    try:
        http.get(url, total=5, max_bytes=CERTIFICATE_LIMIT).raise_for_status()
    except (http.HttpError, http.HTTPStatusError) as error:
        raise Forged(f"it cannot be confirmed ({type(error).__name__})") from None
