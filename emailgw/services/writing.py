"""Writing an email down: all of its rows by one statement, or none of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from emailgw.models import IdempotencyKey, OutboxEmail, Recipient, StoredHtml
from emailgw.services import limits
from jobs.statements import Columns, Statement


def write(
    outbox: OutboxEmail,
    source: str,
    html: StoredHtml | None,
    recipient: Recipient | None,
    key: IdempotencyKey | None,
) -> bool:
    """The email is in the outbox, its story begins, and its company has used one of its limits.

    With it go the content, the recipient and the key, where they are new. False where somebody was
    quicker with one of these: then look again, and the email is not there. Raises Refused where it
    is one too many; the caller takes everything back.
    """
    new = [row for row in (html, recipient, key) if row is not None]
    parts = tuple(type(row) for row in new)
    values = [value for row in [*new, outbox] for value in _columns(type(row)).values(row)]
    [answer] = _statement(parts).rows([outbox.company_id, source, *values])
    if answer["usage"] is None:
        return False
    limits.check(outbox.company, answer["usage"])
    return True


def html_of(row: OutboxEmail, body: str) -> StoredHtml:
    """The email's content, which all emails of the company with the same content share."""
    return StoredHtml(
        company_id=row.company_id, digest=row.html_digest, body=body, size=len(body.encode())
    )


@cache
def _columns(model: Any) -> Columns:
    return Columns(model)


_ONCE = {
    StoredHtml: "(company_id, digest)",
    Recipient: "(company_id, external_id) WHERE external_id IS NOT NULL",
    IdempotencyKey: "(company_id, key)",
}


@cache
def _statement(parts: tuple[Any, ...]) -> Statement:
    """Everybody takes content, recipient, key and limits in this order."""
    number, ctes = 3, list[str]()
    there = list[str]()
    for place, model in enumerate(parts):
        when = f" WHERE {' AND '.join(there)}" if there else ""
        on = f"ON CONFLICT {_ONCE[model]} DO NOTHING"
        ctes.append(f"n{place} AS ({_insert(model, number)}{when} {on} RETURNING id)")
        there.append(f"EXISTS (SELECT FROM n{place})")
        number += len(_columns(model))
    when = f" WHERE {' AND '.join(there)}" if there else ""
    text = f"""
WITH {"".join(f"{cte}, " for cte in ctes)}
o AS ({_insert(OutboxEmail, number)}{when} RETURNING id),
e AS (INSERT INTO emailgw_event (outbox_id, type, source, detail)
  SELECT o.id, 'CREATED', $2, '{{}}'::jsonb FROM o),
u AS ({limits.USE})
SELECT json_build_object('usage', (SELECT json_agg(u) FROM u))
"""  # noqa: S608 - names of our own models
    return Statement("emailgw_write_" + "_".join(m._meta.model_name for m in parts), text)


def _insert(model: Any, first: int) -> str:
    columns = _columns(model)
    table = model._meta.db_table
    return f"INSERT INTO {table} ({columns.names}) SELECT {columns.holes(first)}"
