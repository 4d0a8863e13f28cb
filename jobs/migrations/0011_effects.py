"""What is done stays done, and a doubt does not disappear, whoever writes to the ledger."""

from django.db import migrations

GUARD = """
CREATE FUNCTION jobs_guard_effect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.state <> 'done' OR NEW.job_id <> OLD.job_id OR NEW.key <> OLD.key
      OR OLD.outcome IS NOT NULL AND NEW.outcome IS DISTINCT FROM OLD.outcome THEN
    RAISE EXCEPTION 'effect % of job % has happened: its row stays as it is', OLD.key, OLD.job_id
      USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER jobs_effect_guard BEFORE UPDATE ON jobs_effect FOR EACH ROW
  WHEN (OLD.state = 'done') EXECUTE FUNCTION jobs_guard_effect();
CREATE TRIGGER jobs_effect_death BEFORE DELETE ON jobs_effect FOR EACH ROW
  WHEN (OLD.state IN ('intent', 'in_doubt')) EXECUTE FUNCTION jobs_refuse();
"""

UNGUARD = """
DROP TRIGGER jobs_effect_guard ON jobs_effect; DROP TRIGGER jobs_effect_death ON jobs_effect;
DROP FUNCTION jobs_guard_effect();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0010_schedules")]

    operations = [migrations.RunSQL(GUARD, UNGUARD)]
