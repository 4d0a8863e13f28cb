"""The triggers that refuse illegal moves and write each legal one into the row's history."""

from django.db import migrations

# The function serves every guarded table; the legal moves are the trigger's arguments.
GUARD = """
CREATE FUNCTION jobs_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT (OLD.state || '>' || NEW.state) = ANY (TG_ARGV) THEN
    RAISE EXCEPTION 'illegal move of % %: % -> %', TG_TABLE_NAME, OLD.id, OLD.state, NEW.state
      USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
  END IF;
  NEW.history := OLD.history || jsonb_build_array(jsonb_build_array(
    round(extract(epoch FROM jobs_clock()), 3), OLD.state, NEW.state,
    left(coalesce(NEW.moved_by, 'db:' || session_user), 60), left(NEW.move_reason, 100)));
  NEW.history_dropped := OLD.history_dropped;
  -- The first 8 moves and the latest are kept. One move may need 640 bytes.
  WHILE jsonb_array_length(NEW.history) > 64
      OR pg_column_size(NEW.history) > 15000 AND jsonb_array_length(NEW.history) > 9 LOOP
    NEW.history := NEW.history - 8;
    NEW.history_dropped := NEW.history_dropped + 1;
  END LOOP;
  NEW.moved_by := NULL;
  NEW.move_reason := NULL;
  RETURN NEW;
END $$;

CREATE FUNCTION jobs_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    RAISE EXCEPTION 'a row of % cannot be born %', TG_TABLE_NAME, NEW.state
      USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
  END IF;
  RAISE EXCEPTION '% % is % and cannot be deleted', TG_TABLE_NAME, OLD.id, OLD.state
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $$;
"""

UNGUARD = "DROP FUNCTION jobs_guard(); DROP FUNCTION jobs_refuse();"


def guard(table: str, moves: list[str], births: list[str], finals: list[str]) -> str:
    """SQL that guards a table; the WHEN clauses keep the triggers off every other write."""
    arguments = ", ".join(f"'{move}'" for move in moves)
    born = ", ".join(f"'{state}'" for state in births)
    final = ", ".join(f"'{state}'" for state in finals)
    return f"""
CREATE TRIGGER {table}_guard BEFORE UPDATE ON {table} FOR EACH ROW
  WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION jobs_guard({arguments});
CREATE TRIGGER {table}_birth BEFORE INSERT ON {table} FOR EACH ROW
  WHEN (NEW.state NOT IN ({born})) EXECUTE FUNCTION jobs_refuse();
CREATE TRIGGER {table}_death BEFORE DELETE ON {table} FOR EACH ROW
  WHEN (OLD.state NOT IN ({final})) EXECUTE FUNCTION jobs_refuse();
"""


def unguard(table: str) -> str:
    return "".join(
        f"DROP TRIGGER {table}_{name} ON {table};" for name in ("guard", "birth", "death")
    )


JOB = guard(
    "jobs_job",
    [
        "blocked>pending",
        "blocked>cancelled",
        "blocked>expired",
        "pending>queued",
        "pending>cancelled",
        "pending>expired",
        "queued>pending",
        "queued>running",
        "queued>cancelled",
        "queued>expired",
        "running>succeeded",
        "running>pending",
        "running>failed",
        "running>cancelled",
        "failed>pending",
        "cancelled>pending",
        "expired>pending",
    ],
    ["blocked", "pending", "queued"],
    ["succeeded", "failed", "cancelled", "expired"],
)

DEAD_LETTER = guard(
    "jobs_deadletter",
    ["open>retried", "open>replayed", "open>discarded", "open>expired"],
    ["open"],
    ["retried", "replayed", "discarded", "expired"],
)

# A job's row is rewritten four times in its life: room on the page, and vacuum long before the
# default fifth of the table is dead. The lease table is tiny and renewed all the time.
STORAGE = """
ALTER TABLE jobs_job SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 1);
ALTER TABLE jobs_lease SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 200);
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]

    operations = [
        migrations.RunSQL(GUARD, UNGUARD),
        migrations.RunSQL(JOB, unguard("jobs_job")),
        migrations.RunSQL(DEAD_LETTER, unguard("jobs_deadletter")),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
    ]
