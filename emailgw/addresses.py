"""Validation of email addresses and headers.

Only a plain addr-spec is accepted: no display names, comments, quoted local parts or routes.
Anything that one parser reads as one address and another as two is refused, before it is stored and
again before it is sent.
"""

from __future__ import annotations

import re
from functools import lru_cache

from email_validator import EmailNotValidError, validate_email

from emailgw.config import ADDRESS_LIMIT, HEADER_NAME_LIMIT, HEADER_VALUE_LIMIT

_ATOM = r"[A-Za-z0-9#$&'*+/=?^_`{|}~-]+"  # no % and no !: old relays route by them
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+{_LABEL}\Z")
_DOMAIN = re.compile(rf"(?:{_LABEL}\.)+{_LABEL}\Z")
_HEADER = re.compile(r"X-(?:Custom-[A-Z0-9-]{1,55}|Priority)\Z", re.IGNORECASE | re.ASCII)
# Joiners (\u200c, \u200d) and marks of direction (\u061c, \u200e, \u200f) are parts of emoji and of
# Arabic, Hebrew and Persian text. Overrides of direction can disguise a text and are refused.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u200b\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


@lru_cache(maxsize=64)  # each address is checked by the request and by the contract
def address_problem(value: str) -> str:
    """Return why this is not a plain address, without quoting it; empty if it is one."""
    if len(value) > ADDRESS_LIMIT:
        return f"must have at most {ADDRESS_LIMIT} characters"
    if not _ADDRESS.match(value):
        return "must be a valid email address"
    try:
        # Allow domains below .test.
        validate_email(value, check_deliverability=False, strict=True, test_environment=True)
    except EmailNotValidError:
        return "must be a valid email address"
    return ""


def domain_of(address: str) -> str:
    """Return the domain of an address, in lower case."""
    return address.rpartition("@")[2].lower()


def is_domain(value: str) -> bool:
    """Return whether this is a domain name with at least two labels."""
    return len(value) <= 253 and _DOMAIN.match(value) is not None


def line_problem(value: str) -> str:
    """Return why this text is not allowed in a header; empty if it is allowed."""
    if _UNPRINTABLE.search(value):
        return "must not contain line breaks or control characters"
    return ""


def header_problem(name: str, value: str) -> str:
    """Return why senders may not set this header; empty if they may."""
    if len(name) > HEADER_NAME_LIMIT or not _HEADER.match(name):
        return "may only name X-Priority and X-Custom-…"
    if len(value) > HEADER_VALUE_LIMIT:
        return f"must have values of at most {HEADER_VALUE_LIMIT} characters"
    return line_problem(value)
