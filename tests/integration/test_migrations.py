"""Migrations can be undone and applied again, on a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.architecture.sources import DOMAIN_APPS
from tests.integration.fleet import Fleet

OURS = tuple(f"{app}_" for app in ("jobs", *DOMAIN_APPS))
_SCHEMA = """
SELECT 'column', table_name, column_name, data_type, is_nullable
  FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE 'django%'
UNION ALL SELECT 'function', proname, pg_get_function_identity_arguments(oid), prosrc,
  array_to_string(proconfig, ' ') FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'index', tablename, indexname, indexdef, '' FROM pg_indexes
  WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), ''
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), ''
  FROM pg_trigger WHERE NOT tgisinternal
ORDER BY 1, 2, 3, 4
"""


@pytest.fixture
def empty(fleet: Fleet) -> Iterator[str]:
    """The URL of an empty database."""
    fleet.query("CREATE DATABASE migrated")
    yield urlsplit(fleet.postgres.url)._replace(path="/migrated").geturl()
    fleet.end_programs()
    fleet.query("DROP DATABASE migrated WITH (FORCE)")


@pytest.mark.slow
def test_every_app_can_be_unapplied_and_applied_again(fleet: Fleet, empty: str) -> None:
    def migrate(*arguments: str) -> None:
        program = fleet.manage(
            "migrate",
            "migrate",
            *arguments,
            "--verbosity=0",
            env={"DATABASE_URL": empty, "FLEET_APPS": ",".join(DOMAIN_APPS)},
        )
        assert program.ended(180) == 0, program.logged()

    migrate()
    with psycopg.connect(empty, autocommit=True) as connection:
        at_first = connection.execute(_SCHEMA).fetchall()
        migrate("jobs", "zero")  # and what depends on it, which is all of the apps
        left = connection.execute(_SCHEMA).fetchall()
        assert not [row for row in left if row[1].startswith(OURS)]
        migrate()
        assert connection.execute(_SCHEMA).fetchall() == at_first
