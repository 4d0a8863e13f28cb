"""The project's settings, with the specimen jobs of the tests."""

from tests import parallel

parallel.set_apart()

from config.settings import *  # noqa: E402, F403
from tests.architecture.sources import DOMAIN_APPS  # noqa: E402

INSTALLED_APPS += ["tests.specimens"]  # noqa: F405
CORE_APPS = [app for app in INSTALLED_APPS if app.partition(".")[0] not in DOMAIN_APPS]
"""Without the domain apps: for tests of what holds for a project that has none."""

KEYS = {
    "KEYS": {"test": "dDUOFYZzHIOnkmDTnGmrJ4NGvFxQWUgQZsPjCVmXv6k="},
    "INDEX_KEY": "c3K7fEXgLCdmWMqcgqJRHzv9oHmYYTOTSPEMTFPRt9M=",
}
"""Of whatever is encrypted in tests."""
JOBS = {**JOBS, **KEYS, "WORKERS": {}}  # noqa: F405 - tests declare groups of their own
if EMAILGW and "smtp" not in EMAILGW["PROVIDERS"]:  # noqa: F405
    # Nobody listens there: tests that send emails name a server of their own.
    EMAILGW["PROVIDERS"] = {"smtp": {"OPTIONS": {"host": "127.0.0.1", "port": 9}}}  # noqa: F405
