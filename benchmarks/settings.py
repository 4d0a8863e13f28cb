"""The project's settings, with the specimen jobs of the benchmarks."""

import os
from datetime import timedelta

from config.settings import *  # noqa: F403

INSTALLED_APPS += ["benchmarks.specimens"]  # noqa: F405

# Where any kind has a limit, the dispatcher asks for it; so most workloads know no such kind.
if os.environ.get("BENCH_LIMITS"):
    INSTALLED_APPS += ["benchmarks.limited"]
if not os.environ.get("BENCH_EMAIL"):
    for app in {"anymail", "emailgw.apps.EmailgwConfig"}.intersection(INSTALLED_APPS):
        INSTALLED_APPS.remove(app)
if "BENCH_KEEP_DAYS" in os.environ:
    JOBS["KEEP_COMPLETED"] = timedelta(days=int(os.environ["BENCH_KEEP_DAYS"]))  # noqa: F405

if os.environ.get("BENCH_UNCOUNTED"):
    JOBS["API_RATES"] = {}  # noqa: F405
# Of whatever is encrypted; of use to nobody.
JOBS |= {  # noqa: F405
    "KEYS": {"bench": "dDUOFYZzHIOnkmDTnGmrJ4NGvFxQWUgQZsPjCVmXv6k="},
    "INDEX_KEY": "c3K7fEXgLCdmWMqcgqJRHzv9oHmYYTOTSPEMTFPRt9M=",
}

# No pooler stands in between.
JOBS["PREPARE"] = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
