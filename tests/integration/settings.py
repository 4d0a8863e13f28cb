"""Settings of the processes that integration tests start: durations and sabotage by environment."""

import json
import os

from tests.settings import *  # noqa: F403

JOBS = {**KEYS, **json.loads(os.environ.get("FLEET_JOBS", "{}"))}  # noqa: F405
EMAILGW = json.loads(os.environ.get("FLEET_EMAILGW", "{}"))
if "FLEET_EMAILGW" not in os.environ:  # its sweeps are jobs that tests of the core do not expect
    INSTALLED_APPS = [app for app in INSTALLED_APPS if not app.startswith("emailgw")]  # noqa: F405

if os.environ.get("FLEET_UNFENCED"):
    INSTALLED_APPS += ["tests.integration.unfenced.Unfenced"]

if os.environ.get("FLEET_CRASH"):
    INSTALLED_APPS += ["tests.emailgw.sabotage.Sabotage"]

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} [{process}] {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {"jobs": {"handlers": ["stderr"], "level": "INFO", "propagate": False}},
}
