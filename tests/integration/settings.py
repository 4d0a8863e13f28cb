"""Settings of the processes that integration tests start: durations and sabotage by environment."""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import CORE_APPS, KEYS
from tests.settings import INSTALLED_APPS as ALL_APPS

JOBS = {**KEYS, **json.loads(os.environ.get("FLEET_JOBS", "{}"))}
if "FLEET_EMAILGW" in os.environ:
    EMAILGW = json.loads(os.environ["FLEET_EMAILGW"])

# A fleet has the domain apps that it asks for: what they import costs every process a moment.
WANTED = {*os.environ.get("FLEET_APPS", "").split(",")}
INSTALLED_APPS = [a for a in ALL_APPS if a in CORE_APPS or a.partition(".")[0] in WANTED]

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
