"""Signatures of AWS in the query of an address (Signature Version 4)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE = "s3"


def presign(
    method: str,
    url: str,
    *,
    key_id: str,
    secret: str,
    region: str,
    at: datetime,
    seconds: int,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
) -> str:
    """Return the URL with a signature of the method, the host, the headers and the query.

    The request must be sent with these headers. Its body is not signed.
    """
    parts = urlsplit(url)
    signed = {"host": parts.netloc} | {k.lower(): v for k, v in (headers or {}).items()}
    day, moment = at.strftime("%Y%m%d"), at.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{day}/{region}/{SERVICE}/aws4_request"
    names = ";".join(sorted(signed))
    whole = {
        **(query or {}),
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{key_id}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": names,
    }
    canonical_query = "&".join(f"{_quoted(name)}={_quoted(whole[name])}" for name in sorted(whole))
    lines = "".join(f"{name}:{signed[name].strip()}\n" for name in sorted(signed))
    path = parts.path or "/"
    canonical = "\n".join([method, path, canonical_query, lines, names, "UNSIGNED-PAYLOAD"])
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join([ALGORITHM, moment, scope, digest])
    signature = hmac.new(_key(secret, day, region), text.encode(), hashlib.sha256).hexdigest()
    return f"{parts.scheme}://{parts.netloc}{path}?{canonical_query}&X-Amz-Signature={signature}"


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, SERVICE, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
