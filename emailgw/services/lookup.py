"""Look up everything that decides whether an email is accepted, in one statement."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from uuid import UUID

from emailgw import suppressions
from emailgw.errors import Refused
from emailgw.models import Company
from emailgw.requests import EmailRequest
from emailgw.services import recipients
from jobs.statements import Statement

# Plain SQL, because the ORM has no FOR KEY SHARE: with FOR NO KEY UPDATE, emails with the same
# content would wait for each other. One statement, because the ORM would need five round trips.
_SQL = """
WITH html AS MATERIALIZED (
    SELECT id FROM emailgw_html
    WHERE company_id = %(company)s::uuid AND digest = %(digest)s
    FOR KEY SHARE
),
recipient AS MATERIALIZED (
    SELECT id, email_index, cpf_cnpj_hash, razao_social, nome,
        deleted_at IS NOT NULL AS is_deleted
    FROM emailgw_recipient
    WHERE company_id = %(company)s::uuid AND {recipient}
    ORDER BY id
    LIMIT 1
    FOR NO KEY UPDATE
),
suppressed AS (
    SELECT email_index FROM emailgw_suppression
    WHERE email_index = ANY(%(addresses)s::text[])
        AND (company_id = %(company)s::uuid OR company_id IS NULL)
        AND (expires_at IS NULL OR expires_at > jobs_clock())
),
company AS (
    SELECT id, is_suspended, default_from, from_domains, reply_domains, provider,
        per_minute, per_hour, per_day
    FROM emailgw_company
    WHERE id = %(company)s::uuid
)
SELECT row_to_json(lookup) FROM (
    SELECT row_to_json(company) AS company,
        jobs_clock() AS moment,
        (SELECT id FROM html) AS html_id,
        (SELECT row_to_json(recipient) FROM recipient) AS recipient,
        ARRAY(SELECT email_index FROM suppressed) AS suppressed,
        EXISTS (
            SELECT FROM emailgw_idempotency WHERE company_id = %(company)s::uuid AND key = %(key)s
        ) AS key_is_used
    FROM company
) AS lookup
"""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the database knows about an email that is about to be accepted."""

    company: Company
    moment: datetime
    html_id: UUID | None
    recipient: recipients.Match | None
    suppressed: frozenset[str]
    key_is_used: bool


def look_up(company: Company, asked: EmailRequest, digest: str, key: str) -> Lookup:
    """Look up the company, content, recipient, suppressed addresses and key of an email.

    Until the transaction ends, the content cannot be deleted and the recipient cannot be changed by
    others. Raise Refused if the company does not exist.
    """
    query = recipients.query(company.pk, asked)
    addresses = suppressions.indexes([asked.to, *asked.cc, *asked.bcc])
    rows = _statement(query.by).rows({
        "company": company.pk, "digest": digest, "addresses": list(addresses), "key": key,
        **query.values,
    })  # fmt: skip
    if not rows:
        raise Refused("NOT_FOUND", "there is no such company", "company")
    [row] = rows
    return Lookup(
        company=Company(**{**row["company"], "id": company.pk}),
        moment=datetime.fromisoformat(row["moment"]),
        html_id=UUID(row["html_id"]) if row["html_id"] else None,
        recipient=query.match(row["recipient"]) if row["recipient"] else None,
        suppressed=frozenset(addresses[index] for index in row["suppressed"]),
        key_is_used=row["key_is_used"],
    )


@cache
def _statement(by: str) -> Statement:
    text = _SQL.format(recipient=recipients.CONDITIONS[by])
    return Statement(f"emailgw_lookup_{by}", text)
