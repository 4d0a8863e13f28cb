"""A project without the packages of the extra has nothing of the app, and works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KEY = "dDUOFYZzHIOnkmDTnGmrJ4NGvFxQWUgQZsPjCVmXv6k="
CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = """
import json, sys
sys.modules[sys.argv[1]] = None  # as if it were not installed
import django
django.setup()
from django.core.management import call_command
call_command("check")
import config.asgi, config.urls
from django.apps import apps
from jobs import registry
print(json.dumps({
    "modules": sorted(m for m in sys.modules if m.partition(".")[0] == "trading"),
    "kinds": sorted(h.payload.kind for h in registry.handlers() if h.queue.startswith("q_")),
    "installed": apps.is_installed("trading"),
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["numpy", "jwt"])
def test_without_the_extra_nothing_of_it_is_imported(missing: str) -> None:
    environment = {
        **os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "SECRET_KEY": "of a test",
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
        "REDIS_URL": "redis://127.0.0.1:1/0", "DEBUG": "off",
        "JOBS_INDEX_KEY": KEY, "JOBS_KEYS": f"test={KEY}",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROJECT, missing], cwd=CHECKOUT, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"modules": [], "kinds": [], "installed": False}
