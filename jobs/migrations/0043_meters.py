"""Meters: rates of calls inside handlers, one row for the whole fleet."""

import django.contrib.postgres.fields
from django.db import migrations, models

# Takes are booked one behind the other: each gets the first moment, not before the last one's, at
# which the burst has room (a heavier one waits for a full burst and leaves a debt) and no window
# of the rate's time would hold more than the rate. What is taken is counted in 40 parts of that
# time; a window touches at most 41 of them. "late" is how long a caller may need to begin its
# call, and lengthens the window. Nothing is booked that lies more than "most" seconds ahead.
TAKE = """
CREATE FUNCTION jobs_take_meter(name_ text, weight int, amount_ float8, span_ float8,
  burst_ float8, late float8, most float8)
RETURNS TABLE (wait float8, is_taken boolean, is_closed boolean) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  parts CONSTANT int := 40;
  width CONSTANT float8 := (span_ + late) / parts;
  pace CONSTANT float8 := amount_ / (width * (parts + 1));
  m jobs_meter;
  now_ float8;
  last float8;
  at float8;
  have float8;
  here bigint;
  gone int;
BEGIN
  LOOP
    SELECT * INTO m FROM jobs_meter WHERE name = name_ FOR NO KEY UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO jobs_meter (name, amount, span, burst, tokens, taken_until, spent, part)
      VALUES (name_, amount_, span_, burst_, burst_, jobs_clock(),
        array_fill(0, ARRAY[parts + 1]), 0)
      ON CONFLICT DO NOTHING;
  END LOOP;
  -- Asked under the lock, so that it does not go back from one take to the next.
  now_ := extract(epoch FROM jobs_clock());
  is_taken := false;
  is_closed := coalesce(m.closed_until > jobs_clock(), false);
  IF is_closed THEN
    wait := extract(epoch FROM m.closed_until) - now_;
    RETURN NEXT;
    RETURN;
  END IF;
  last := extract(epoch FROM m.taken_until);
  IF m.amount <> amount_ OR m.span <> span_ OR last > now_ + 3600 THEN
    -- Declared otherwise, or the clock went back: all that was taken counts as taken now.
    m.spent := array_fill(0, ARRAY[parts])
      || least((SELECT sum(s) FROM unnest(m.spent) s), floor(amount_))::int;
    last := least(last, now_);
    m.part := floor(now_ / width);
  END IF;
  at := greatest(now_, last);
  have := least(burst_, m.tokens + pace * (at - last));
  IF have < least(weight, burst_) THEN
    at := at + (least(weight, burst_) - have) / pace;
    have := least(weight, burst_);
  END IF;
  here := greatest(m.part, floor(at / width)::bigint);
  LOOP
    gone := least(here - m.part, parts + 1);
    EXIT WHEN coalesce((SELECT sum(s) FROM unnest(m.spent[gone + 1:]) s), 0) + weight <= amount_;
    here := here + 1;
  END LOOP;
  have := least(burst_, have + pace * greatest(0, here * width - at));
  at := greatest(at, here * width);
  wait := at - now_;
  is_taken := wait <= most;
  IF is_taken THEN
    m.spent := m.spent[gone + 1:] || array_fill(0, ARRAY[gone]);
    m.spent[parts + 1] := m.spent[parts + 1] + weight;
    UPDATE jobs_meter SET amount = amount_, span = span_, burst = burst_, tokens = have - weight,
      taken_until = to_timestamp(at), spent = m.spent, part = here WHERE name = name_;
  END IF;
  RETURN NEXT;
END $$;
"""

# Only the first closing is published, and its extension by others is not.
TELL = """
CREATE FUNCTION jobs_tell_meter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.closed_until > jobs_clock()
      AND (OLD.closed_until IS NULL OR OLD.closed_until <= jobs_clock()) THEN
    INSERT INTO jobs_outbox (topic, key, audience, payload)
    VALUES ('jobs.meter.closed', 'meter:' || NEW.name, 'staff',
      jsonb_build_object('meter', NEW.name, 'until', NEW.closed_until));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_meter_tell AFTER UPDATE ON jobs_meter FOR EACH ROW
  WHEN (NEW.closed_until IS DISTINCT FROM OLD.closed_until AND NEW.closed_until IS NOT NULL)
  EXECUTE FUNCTION jobs_tell_meter();
"""

UNTAKE = """
DROP TRIGGER jobs_meter_tell ON jobs_meter; DROP FUNCTION jobs_tell_meter();
DROP FUNCTION jobs_take_meter(text, int, float8, float8, float8, float8, float8);
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0042_metrics_of_apps")]

    operations = [
        migrations.CreateModel(
            name="Meter",
            fields=[
                (
                    "name",
                    models.TextField(primary_key=True, serialize=False, verbose_name="name"),
                ),
                ("amount", models.FloatField(verbose_name="calls")),
                ("span", models.FloatField(verbose_name="in seconds")),
                ("burst", models.FloatField(verbose_name="burst")),
                ("tokens", models.FloatField(verbose_name="left of the burst")),
                ("taken_until", models.DateTimeField(verbose_name="taken until")),
                (
                    "spent",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.IntegerField(), size=None, verbose_name="spent"
                    ),
                ),
                ("part", models.BigIntegerField(verbose_name="part")),
                (
                    "closed_until",
                    models.DateTimeField(blank=True, null=True, verbose_name="closed until"),
                ),
            ],
            options={
                "verbose_name": "meter",
                "verbose_name_plural": "meters",
                "db_table": "jobs_meter",
                "ordering": ["name"],
            },
        ),
        migrations.RunSQL(TAKE + TELL, UNTAKE),
    ]
