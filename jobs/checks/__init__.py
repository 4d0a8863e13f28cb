"""`manage.py check`: wrong settings and risky set-ups, said before they hurt.

``E`` is an error, ``W`` a warning; ``check --deploy`` also looks at the Redis server, and
``check --database`` at PostgreSQL.
"""

from jobs.checks import database, permissions, processes, redis, settings

__all__ = ["database", "permissions", "processes", "redis", "settings"]
