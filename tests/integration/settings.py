"""Settings of the processes that integration tests start: durations and sabotage by environment."""

import json
import os

from tests.settings import *  # noqa: F403

JOBS = {**KEYS, **json.loads(os.environ.get("FLEET_JOBS", "{}"))}  # noqa: F405
if "FLEET_EMAILGW" in os.environ:
    EMAILGW = json.loads(os.environ["FLEET_EMAILGW"])

# A fleet has the domain apps that it asks for: what they import costs every process a moment.
WANTED = {*os.environ.get("FLEET_APPS", "").split(",")}
APPS = INSTALLED_APPS  # noqa: F405
INSTALLED_APPS = [a for a in APPS if a in CORE_APPS or a.partition(".")[0] in WANTED]  # noqa: F405

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
