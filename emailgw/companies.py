"""Creating and changing companies: their senders, domains, provider and limits."""

from __future__ import annotations

from typing import Any

from emailgw import addresses, config
from emailgw.errors import Refused
from emailgw.models import Company

LIMIT_MAX = 100_000_000
COLUMNS = {
    "name": "name", "sender": "default_from", "domains": "from_domains",
    "reply_domains": "reply_domains", "provider": "provider", "in_doubt": "on_doubt",
    "per_minute": "per_minute", "per_hour": "per_hour", "per_day": "per_day",
}  # fmt: skip
"""The column of each parameter."""


def assign(row: Company, given: dict[str, Any]) -> dict[str, Any]:
    """Set the given values, without saving; return those that differ by column.

    A value of None keeps the column. Raise Refused that names the parameter.
    """
    changed = {}
    for name, value in given.items():
        column = COLUMNS[name]
        if value is not None and (value := _checked(name, value)) != getattr(row, column):
            changed[column] = value
            setattr(row, column, value)
    if addresses.domain_of(row.default_from) not in row.from_domains:
        raise Refused("VALIDATION_ERROR", "must be in one of the verified domains", "sender")
    return changed


def _checked(name: str, value: Any) -> Any:
    problem = ""
    if name == "name":
        value = value.strip()
        problem = addresses.line_problem(value) if value else "must not be empty"
    elif name == "sender":
        value = value.strip().lower()
        problem = addresses.address_problem(value)
    elif name in ("domains", "reply_domains"):
        value = sorted({one.strip().lower() for one in value})
        others = {"*"} if name == "reply_domains" else set()
        if not all(one in others or addresses.is_domain(one) for one in value):
            problem = "must be names of domains"
    elif name == "provider" and value and value not in config.settings().PROVIDERS:
        problem = "must be a provider of EMAILGW['PROVIDERS']"
    if problem:
        raise Refused("VALIDATION_ERROR", problem, name)
    return value
