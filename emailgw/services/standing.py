"""What is known when an email is handed in: asked for at once, and locked where it must not change.

Its company as it is stored, whether its content and its recipient are there already, which of its
addresses are suppressed, and whether its key was used.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from emailgw import suppressions
from emailgw.errors import Refused
from emailgw.models import Company
from emailgw.requests import EmailRequest
from emailgw.services import recipients
from emailgw.services.recipients import Found, Sought
from jobs.statements import Statement

_COMPANY = (
    "is_suspended", "default_from", "from_domains", "reply_domains", "provider",
    "per_minute", "per_hour", "per_day",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand at the moment, for one email."""

    company: Company
    moment: datetime
    html_id: UUID | None
    recipient: Found | None
    suppressed: frozenset[str]
    key_is_used: bool


def standing(company: Company, asked: EmailRequest, digest: str, key: str) -> Standing:
    """How things stand; raises Refused where the company is gone.

    The content stays until the transaction ends, and nobody else changes the recipient meanwhile.
    """
    sought = recipients.sought(company.pk, asked)
    everyone = suppressions.indexes([asked.to, *asked.cc, *asked.bcc])
    found = _look(sought.way).rows([company.pk, digest, list(everyone), key, *sought.values])
    if not found:
        raise Refused("NOT_FOUND", "there is no such company", "company")
    [row] = found
    return Standing(
        company=Company(id=company.pk, **row["company"]),
        moment=datetime.fromisoformat(row["moment"]),
        html_id=UUID(row["html"]) if row["html"] else None,
        recipient=_found(row["recipient"], sought),
        suppressed=frozenset(everyone[index] for index in row["suppressed"]),
        key_is_used=row["used"],
    )


def _found(row: dict[str, Any] | None, sought: Sought) -> Found | None:
    return None if row is None else Found(**{**row, "id": UUID(row["id"]), "sought": sought})


@cache
def _look(way: str) -> Statement:
    pairs = ", ".join(f"'{name}', c.{name}" for name in _COMPANY)
    text = f"""
WITH h AS MATERIALIZED (SELECT id FROM emailgw_html
  WHERE company_id = $1::uuid AND digest = $2 FOR KEY SHARE),
r AS MATERIALIZED ({recipients.WAYS[way]} LIMIT 1 FOR NO KEY UPDATE)
SELECT json_build_object('company', json_build_object({pairs}), 'moment', jobs_clock(),
  'html', (SELECT id FROM h), 'recipient', (SELECT row_to_json(r) FROM r),
  'suppressed', ARRAY({suppressions.FIND}),
  'used', EXISTS (SELECT FROM emailgw_idempotency k WHERE k.company_id = c.id AND k.key = $4))
FROM emailgw_company c WHERE c.id = $1::uuid
"""  # noqa: S608 - constants
    return Statement(f"emailgw_look_{way}", text)
