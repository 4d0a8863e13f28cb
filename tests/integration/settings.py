"""Settings of the processes that integration tests start: durations and sabotage by environment."""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import CORE_APPS, KEYS
from tests.settings import INSTALLED_APPS as ALL_APPS

JOBS = {**KEYS, **json.loads(os.environ.get("FLEET_JOBS", "{}"))}
if os.environ.get("SERVERS") == "pgbouncer":
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True  # noqa: F405
if "FLEET_RQ" in os.environ:
    RQ_QUEUES = {"default": json.loads(os.environ["FLEET_RQ"])}
if "FLEET_EMAILGW" in os.environ:
    EMAILGW = json.loads(os.environ["FLEET_EMAILGW"])
if "FLEET_FILEPROC" in os.environ:
    FILEPROC = json.loads(os.environ["FLEET_FILEPROC"])
if "FLEET_TRADING" in os.environ:
    TRADING = json.loads(os.environ["FLEET_TRADING"])
if "FLEET_OPERATIONS" in os.environ:
    OPERATIONS = json.loads(os.environ["FLEET_OPERATIONS"])
if "FLEET_PUBLISHER" in os.environ:
    PUBLISHER = json.loads(os.environ["FLEET_PUBLISHER"])

# A fleet has the domain apps that it asks for: what they import costs every process a moment.
WANTED = {*os.environ.get("FLEET_APPS", "").split(",")}
INSTALLED_APPS = [a for a in ALL_APPS if a in CORE_APPS or a.partition(".")[0] in WANTED]

if os.environ.get("FLEET_BEGUN"):
    INSTALLED_APPS += ["tests.integration.begun.Begun"]

DATABASES["default"].update(json.loads(os.environ.get("FLEET_DATABASE", "{}")))  # noqa: F405
globals().update(json.loads(os.environ.get("FLEET_SETTINGS", "{}")))

if pool := os.environ.get("FLEET_POOL"):
    DATABASES["default"]["OPTIONS"]["pool"] = json.loads(pool)  # noqa: F405

if os.environ.get("FLEET_LEGACY"):
    INSTALLED_APPS += ["django_rq"]

if os.environ.get("FLEET_EXAMPLE"):
    INSTALLED_APPS += ["tests.exampleapp"]
    ROOT_URLCONF = "tests.exampleapp.urls"
    ASGI_APPLICATION = "tests.exampleapp.asgi.application"

if os.environ.get("FLEET_AUDIT"):
    INSTALLED_APPS += ["tests.attack.audit.Audit"]
if cache := os.environ.get("FLEET_CACHE"):
    CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": cache}
    }

if os.environ.get("FLEET_UNFENCED"):
    INSTALLED_APPS += ["tests.integration.unfenced.Unfenced"]

if os.environ.get("FLEET_UNLOCKED"):
    INSTALLED_APPS += ["tests.integration.unlocked.Unlocked"]

if os.environ.get("FLEET_CRASH"):
    INSTALLED_APPS += ["tests.emailgw.sabotage.Sabotage"]

if os.environ.get("FLEET_KILLS"):
    INSTALLED_APPS += ["tests.publisher.sabotage.Sabotage"]

if os.environ.get("FLEET_LOGGING") != "project":
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"format": "{asctime} [{process}] {name}: {message}", "style": "{"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {"jobs": {"handlers": ["stderr"], "level": "INFO", "propagate": False}},
    }
