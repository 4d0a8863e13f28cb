"""A kind may say that its jobs do not expire any more once they have started."""

from __future__ import annotations

from importlib import import_module

from django.db import migrations

before = import_module("jobs.migrations.0006_flow_functions")

# As it was, but for the flag 128: the first claim of such a job ends its time to expire.
_SET = before._CLAIM_SET.replace(
    "started_at = now_,",
    "started_at = now_,\n      expires_at = CASE WHEN j.flow & 128 = 0 THEN j.expires_at END,",
)
# Replacing a function forgets its settings.
_SETTINGS = """LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$"""


def replaced(claim_set: str) -> str:
    """Return the statement that puts a claim with this UPDATE into place."""
    text: str = before.CLAIM.replace(before._CLAIM_SET, claim_set)
    text = text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    return text.replace("LANGUAGE plpgsql VOLATILE AS $$", _SETTINGS)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0039_places_of_jobs")]

    operations = [
        migrations.RunSQL(replaced(_SET), replaced(before._CLAIM_SET)),
    ]
