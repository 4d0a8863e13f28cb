"""Insert an email with all of its rows, in one statement."""

from __future__ import annotations

from functools import cache

from django.db import models

from emailgw.models import IdempotencyKey, OutboxEmail, Recipient, StoredHtml
from emailgw.services import limits
from jobs.statements import Columns, Statement

# Plain SQL, because bulk_create(ignore_conflicts=True) does not say what it inserted, and because
# the ORM would need six round trips. Each part is only inserted if those before it were, so
# concurrent requests lock them in the same order and a conflict inserts nothing after it. Each
# {insert_…} is "INSERT INTO table (columns) SELECT parameters".
_SQL = """
WITH html AS (
    {insert_html}
    WHERE %(new_html)s::boolean
    ON CONFLICT (company_id, digest) DO NOTHING
    RETURNING id
),
recipient AS (
    {insert_recipient}
    WHERE %(new_recipient)s::boolean
        AND (NOT %(new_html)s::boolean OR EXISTS (SELECT FROM html))
    ON CONFLICT (company_id, external_id) WHERE external_id IS NOT NULL DO NOTHING
    RETURNING id
),
key AS (
    {insert_key}
    WHERE %(new_key)s::boolean
        AND (NOT %(new_html)s::boolean OR EXISTS (SELECT FROM html))
        AND (NOT %(new_recipient)s::boolean OR EXISTS (SELECT FROM recipient))
    ON CONFLICT (company_id, key) DO NOTHING
    RETURNING id
),
email AS (
    {insert_email}
    WHERE (NOT %(new_html)s::boolean OR EXISTS (SELECT FROM html))
        AND (NOT %(new_recipient)s::boolean OR EXISTS (SELECT FROM recipient))
        AND (NOT %(new_key)s::boolean OR EXISTS (SELECT FROM key))
    RETURNING id
),
event AS (
    INSERT INTO emailgw_event (outbox_id, type, source, detail)
    SELECT id, 'CREATED', %(source)s, '{{}}'::jsonb FROM email
),
usage AS (
    INSERT INTO emailgw_usage AS counter (company_id, span, began_at, used)
    SELECT %(company)s::uuid, span, date_trunc(span, jobs_clock(), 'UTC'), 1
    FROM email, unnest(ARRAY['day', 'hour', 'minute']) AS span
    ORDER BY span
    ON CONFLICT (company_id, span) DO UPDATE SET
        began_at = excluded.began_at,
        used = CASE WHEN counter.began_at = excluded.began_at THEN counter.used + 1 ELSE 1 END
    RETURNING span, used, began_at
)
SELECT row_to_json(usage) FROM usage
"""

_MODELS: dict[str, type[models.Model]] = {
    "html": StoredHtml, "recipient": Recipient, "key": IdempotencyKey, "email": OutboxEmail,
}  # fmt: skip


def insert(
    email: OutboxEmail,
    source: str,
    html: StoredHtml | None,
    recipient: Recipient | None,
    key: IdempotencyKey | None,
) -> bool:
    """Insert the email, its first event, and its content, recipient and key if they are new.

    Count it towards the limits of its company. Return False, without inserting the email, if a
    concurrent request inserted one of these first; look everything up again then. Raise Refused if
    a limit is exceeded; the caller rolls back.
    """
    columns = _columns()
    usage = _statement().rows({
        "company": email.company_id, "source": source, "new_html": html is not None,
        "new_recipient": recipient is not None, "new_key": key is not None,
        **columns["html"].values(html), **columns["recipient"].values(recipient),
        **columns["key"].values(key), **columns["email"].values(email),
    })  # fmt: skip
    if not usage:
        return False
    limits.check(email.company, usage)
    return True


def new_html(row: OutboxEmail, body: str) -> StoredHtml:
    """Build the content row, shared by all emails of the company with the same content."""
    return StoredHtml(
        company_id=row.company_id, digest=row.html_digest, body=body, size=len(body.encode())
    )


@cache
def _columns() -> dict[str, Columns]:
    return {name: Columns(model, prefix=name) for name, model in _MODELS.items()}


@cache
def _statement() -> Statement:
    inserts = {
        f"insert_{name}": f"INSERT INTO {_MODELS[name]._meta.db_table} ({columns.names}) "
        f"SELECT {columns.parameters}"
        for name, columns in _columns().items()
    }
    return Statement("emailgw_insert", _SQL.format(**inserts))
