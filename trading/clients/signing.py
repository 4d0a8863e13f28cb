"""Tokens for Coinbase's API: one JWT for each request, good for two minutes."""

from __future__ import annotations

import base64
import binascii
import secrets
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from trading.errors import Refused

LIFETIME = 120


def load_key(text: str) -> tuple[Any, str]:
    """Return the private key and the algorithm it signs with; raise Refused."""
    try:
        if "-----BEGIN" in text:
            key: Any = load_pem_private_key(text.replace("\\n", "\n").strip().encode(), None)
        else:
            raw = base64.b64decode("".join(text.split()), validate=True)
            if len(raw) not in (32, 64):  # the seed, or the seed with the public key
                raise ValueError
            key = Ed25519PrivateKey.from_private_bytes(raw[:32])
    except (ValueError, TypeError, binascii.Error):
        raise Refused("KEY_INVALID", field="secret") from None
    if isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, SECP256R1):
        return key, "ES256"
    if isinstance(key, Ed25519PrivateKey):
        return key, "EdDSA"
    raise Refused("KEY_INVALID", field="secret")


def token(name: str, secret: str, method: str, host: str, path: str) -> str:
    """Return the JWT for one request; the query is no part of what is signed."""
    key, algorithm = load_key(secret)
    moment = int(time.time())
    claims = {
        "sub": name, "iss": "cdp", "nbf": moment, "exp": moment + LIFETIME,
        "uri": f"{method} {host}{path}",
    }  # fmt: skip
    return jwt.encode(
        claims, key, algorithm=algorithm, headers={"kid": name, "nonce": secrets.token_hex(16)}
    )
