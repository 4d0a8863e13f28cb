"""Values that may stand behind a key of a query, for somebody who is typing one."""

from __future__ import annotations

from collections.abc import Mapping

from jobs import registry
from jobs.engine import sql
from jobs.operate import depths, reads
from jobs.operate.query.terms import in_scope
from jobs.principals import By, principal

_SUGGESTIONS: Mapping[str, str] = {
    "schedule": "SELECT name FROM jobs_schedule WHERE starts_with(name, %s) ORDER BY 1 LIMIT %s",
    "worker": "SELECT DISTINCT worker FROM jobs_lease WHERE starts_with(worker, %s) "
    "ORDER BY 1 LIMIT %s",
    "error": "SELECT DISTINCT error_class FROM (SELECT error_class FROM jobs_attempt "
    "ORDER BY id DESC LIMIT 2000) a WHERE error_class <> '' AND starts_with(error_class, %s) "
    "ORDER BY 1 LIMIT %s",
}
# A loose scan: one look into the index per tag.
_TAGS = """
WITH RECURSIVE t(value, n) AS (
  (SELECT value, 1 FROM jobs_search WHERE path = 'tag' AND value >= %s ORDER BY value LIMIT 1)
  UNION ALL SELECT (SELECT s.value FROM jobs_search s WHERE s.path = 'tag' AND s.value > t.value
    ORDER BY s.value LIMIT 1), n + 1 FROM t WHERE t.value IS NOT NULL AND n < %s)
SELECT value FROM t WHERE starts_with(value, %s)
"""


def suggestions(key: str, start: str = "", *, by: By, limit: int = 20) -> list[str]:
    """Values that may follow the key; never read from jobs.

    Tags, queues, workers and error classes are other people's data: only those who see everything
    get them. Whose scope names queues gets those.
    """
    scope = principal(by).scope
    if key == "kind":
        return [h.kind for h in registry.handlers() if h.kind.startswith(start)][:limit]
    with reads.bounded():
        if key == "queue" and scope.queues is not None:
            return sorted(name for name in scope.queues if name.startswith(start))[:limit]
        if key == "queue" and scope.is_everything:
            return [name for name in depths.names(scope) if name.startswith(start)][:limit]
        if not in_scope(scope) and key == "tag":
            return [row[0] for row in sql.rows(_TAGS, [start, limit, start]) if row[0]]
        if key in _SUGGESTIONS and not in_scope(scope):
            return [row[0] for row in sql.rows(_SUGGESTIONS[key], [start, limit])]
    return []
