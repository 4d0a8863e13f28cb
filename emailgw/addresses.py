"""Email addresses as this gateway takes them: one plain addr-spec, and nothing that could be two.

No display names, no comments, no quoted local parts, no routes: whatever one parser reads as one
address and another as two is refused here, before anything is stored and again before it is sent.
"""

from __future__ import annotations

import re
from functools import lru_cache

from email_validator import EmailNotValidError, validate_email

from emailgw.config import ADDRESS_LIMIT, HEADER_NAME_LIMIT, HEADER_VALUE_LIMIT

_ATOM = r"[A-Za-z0-9!#$&'*+/=?^_`{|}~-]+"  # no %: old relays route by it
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+{_LABEL}\Z")
_DOMAIN = re.compile(rf"(?:{_LABEL}\.)+{_LABEL}\Z")
_HEADER = re.compile(r"X-(?:Custom-[A-Za-z0-9-]{1,55}|Priority)\Z")
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


@lru_cache(maxsize=64)  # each address is looked at by the request and by the contract
def address_problem(value: str) -> str:
    """Why this is not one address; empty when it is. Says nothing of the value."""
    if len(value) > ADDRESS_LIMIT:
        return f"must have at most {ADDRESS_LIMIT} characters"
    if not _ADDRESS.match(value):
        return "must be a valid email address"
    try:
        # Names below .test are there for trying things out.
        validate_email(value, check_deliverability=False, strict=True, test_environment=True)
    except EmailNotValidError:
        return "must be a valid email address"
    return ""


def domain_of(address: str) -> str:
    """The domain of an address, in small letters."""
    return address.rpartition("@")[2].lower()


def is_domain(value: str) -> bool:
    """Whether this names a domain with at least two labels."""
    return len(value) <= 253 and _DOMAIN.match(value) is not None


def line_problem(value: str) -> str:
    """Why this text cannot stand in a header: it may only have characters that are seen."""
    if _UNPRINTABLE.search(value):
        return "must not contain line breaks or control characters"
    return ""


def header_problem(name: str, value: str) -> str:
    """Why nobody may set this header; empty when everybody may."""
    if len(name) > HEADER_NAME_LIMIT or not _HEADER.match(name):
        return "may only name X-Priority and X-Custom-…"
    if len(value) > HEADER_VALUE_LIMIT:
        return f"must have values of at most {HEADER_VALUE_LIMIT} characters"
    return line_problem(value)
