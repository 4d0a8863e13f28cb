"""The project's settings, with the specimen jobs of the benchmarks."""

import os
from datetime import timedelta

from config.settings import *  # noqa: F403

INSTALLED_APPS = list(
    dict.fromkeys([*INSTALLED_APPS, "benchmarks.specimens", "django_rq"])  # noqa: F405
)

# Where any kind has a limit, the dispatcher asks for it; so most workloads know no such kind.
if os.environ.get("BENCH_LIMITS"):
    INSTALLED_APPS += ["benchmarks.limited"]
APPS = {
    "EMAIL": ("anymail", "emailgw.apps.EmailgwConfig"),
    "FILEPROC": ("fileproc.apps.FileprocConfig",),
    "OPERATIONS": ("operations.apps.OperationsConfig",),
    "PUBLISHER": ("publisher.apps.PublisherConfig",),
    "TRADING": ("trading.apps.TradingConfig",),
}
unused = {app for name, apps in APPS.items() if not os.environ.get(f"BENCH_{name}") for app in apps}
INSTALLED_APPS = [app for app in INSTALLED_APPS if app not in unused]
packages = {app.partition(".")[0] for app in unused}
JOBS["SCOPE"] = [  # noqa: F405
    rule
    for rule in JOBS.get("SCOPE", [])  # noqa: F405
    if rule.partition(".")[0] not in packages
]
if os.environ.get("BENCH_FILEPROC"):  # its rates are those of the machine
    STAGES = ("extract", "chunk", "embed")
    FILEPROC = {"RATES": dict.fromkeys(STAGES, "100000/m")}
if os.environ.get("BENCH_UNPARSED"):  # what the stages cost beside the work in them
    INSTALLED_APPS += ["benchmarks.unparsed.apps.UnparsedConfig"]
    FILEPROC = {
        "RATES": dict.fromkeys(STAGES, "100000/m"),
        "CONCURRENCY": dict.fromkeys(STAGES, 100),
        **{"EMBEDDER": "none", "OWNER_EXTRACTS": 100, "OWNER_EMBEDS": 100},
    }
if os.environ.get("BENCH_PUBLISHER"):  # twice the slots of its workers, which are never idle
    PUBLISHER = {"MAX_CONCURRENT": 16}
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
