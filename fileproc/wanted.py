"""Which files a search is about: those of one owner that are ready, and pass its filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction

FILTERS = ("batch", "folders", "type", "metadata")
"""The parameters that narrow a search further than to its owner."""
WANTED = """
  f.owner = %(owner)s AND f.status = 'ready' AND f.deleted_at IS NULL
  AND (%(batch)s::uuid IS NULL OR f.batch_id = %(batch)s)
  AND (%(folders)s::uuid[] IS NULL OR f.folder_id = ANY(%(folders)s::uuid[]))
  AND (%(type)s = '' OR f.type = %(type)s)
  AND (%(metadata)s::jsonb IS NULL OR f.metadata @> %(metadata)s::jsonb)
"""
SEEN = f"SELECT 1 FROM fileproc_file f WHERE f.content_id = c.content_id AND {WANTED}"  # noqa: S608
_CONTENTS = f"""
SELECT DISTINCT content_id FROM fileproc_file f
WHERE content_id IS NOT NULL AND {WANTED} ORDER BY 1
"""  # noqa: S608 - nothing of a request is in it


def rows(statement: str, wanted: Mapping[str, Any], before: str = "") -> list[tuple[int, float]]:
    """Return the chunks and scores of a statement, after another one in its transaction."""
    with transaction.atomic(), connection.cursor() as cursor:
        if before:
            cursor.execute(before)
        cursor.execute(statement, dict(wanted))
        return [(int(pk), float(score)) for pk, score in cursor.fetchall()]


def contents(wanted: Mapping[str, Any]) -> list[int] | None:
    """Return the contents of the files that pass the filters; None if there are no filters."""
    if not any(wanted[name] not in (None, "") for name in FILTERS):
        return None
    with connection.cursor() as cursor:
        cursor.execute(_CONTENTS, dict(wanted))
        return [pk for (pk,) in cursor.fetchall()]
