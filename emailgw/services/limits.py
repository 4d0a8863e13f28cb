"""How much a company may hand in: per minute, hour and day of the clock."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection

from emailgw.clock import now
from emailgw.errors import Refused
from emailgw.models import Company

SPANS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}

_USE = """
INSERT INTO emailgw_usage AS u (company_id, span, began_at, used)
  SELECT %s, s, date_trunc(s, jobs_clock(), 'UTC'), %s FROM unnest(%s::text[]) s ORDER BY s
ON CONFLICT (company_id, span) DO UPDATE SET began_at = excluded.began_at,
  used = excluded.used + CASE WHEN u.began_at = excluded.began_at THEN u.used ELSE 0 END
RETURNING span, used, began_at
"""


def use(company: Company, emails: int = 1) -> None:
    """The emails are counted; raises Refused where they are too many, which undoes the caller."""
    with connection.cursor() as cursor:
        cursor.execute(_USE, [company.pk, emails, sorted(SPANS)])
        rows = cursor.fetchall()
    limits = company.limits
    ends = [began + SPANS[span] for span, used, began in rows if used > limits[span]]
    if ends:
        wait = max(1, int((max(ends) - now()).total_seconds()) + 1)
        raise Refused("RATE_LIMIT_EXCEEDED", "too many emails for now", retry_after=wait)
