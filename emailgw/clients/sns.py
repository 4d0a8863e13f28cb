"""Amazon SNS: verifying that a message is genuine."""

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
from cryptography.x509.oid import NameOID

from jobs import http

_HOST = re.compile(r"sns\.[a-z]{2,4}(?:-[a-z]+)+-\d\.amazonaws\.com(?:\.cn)?\Z")
_PATH = re.compile(r"SimpleNotificationService-[0-9a-f]+\.pem")
_NAME = re.compile(r"sns\.(?:[a-z0-9-]+\.)?amazonaws\.com(?:\.cn)?")
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
    """The message is not from SNS or not for this gateway. Says why, without its content."""


def verify(message: Mapping[str, Any], topics: tuple[str, ...], moment: datetime) -> None:
    """Check signature, age and topic of a message; raise Forged."""
    if message.get("TopicArn") not in topics:
        raise Forged("its topic is not in EMAILGW['SNS_TOPICS']")
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
    if not is_of_sns(url) or not _PATH.fullmatch(url.partition("//")[2].partition("/")[2]):
        raise Forged("its certificate is not hosted by SNS")
    text = "".join(f"{name}\n{message[name]}\n" for name in fields if name in message)
    try:
        key = public_key(url, moment)
        key.verify(signature, text.encode(), PKCS1v15(), algorithm())
    except InvalidSignature:
        raise Forged("its signature is wrong") from None


def is_of_sns(url: str) -> bool:
    """Return whether the URL belongs to SNS."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" and parts.netloc == parts.hostname and bool(
            _HOST.match(parts.hostname or "")
        )  # fmt: skip
    except ValueError:
        return False


def public_key(url: str, moment: datetime) -> RSAPublicKey:
    """Return the public key of the certificate at the URL; raise Forged."""
    found = certificate(url)
    names = [str(one.value) for one in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not any(_NAME.fullmatch(name) for name in names):
        raise Forged("its certificate was not issued to SNS")
    if not found.not_valid_before_utc <= moment <= found.not_valid_after_utc:
        raise Forged("its certificate is not valid now")
    key = found.public_key()
    if not isinstance(key, RSAPublicKey):
        raise Forged("its certificate has no RSA key")
    return key


@lru_cache(maxsize=16)
def certificate(url: str) -> x509.Certificate:
    """Download a certificate, and nothing else in the same document; raise Forged."""
    try:
        answer = http.get(url, total=5, max_bytes=CERTIFICATE_LIMIT)
        answer.raise_for_status()
        if not answer.content.lstrip().startswith(b"-----BEGIN CERTIFICATE-----"):
            raise ValueError("no PEM")
        return x509.load_pem_x509_certificate(answer.content)
    except (http.HttpError, http.HTTPStatusError, ValueError) as error:
        raise Forged(f"its certificate cannot be downloaded ({type(error).__name__})") from None


def confirm(message: Mapping[str, Any]) -> None:
    """Confirm the subscription of a verified message; raise Forged."""
    url = str(message.get("SubscribeURL", ""))
    if not is_of_sns(url):
        raise Forged("its confirmation URL is not hosted by SNS")
    try:
        http.get(url, total=5, max_bytes=CERTIFICATE_LIMIT).raise_for_status()
    except (http.HttpError, http.HTTPStatusError) as error:
        raise Forged(f"it cannot be confirmed ({type(error).__name__})") from None
