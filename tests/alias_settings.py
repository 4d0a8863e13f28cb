"""The tests' settings, with the jobs on a database alias of their own."""

import os

from tests.settings import *  # noqa: F403

DATABASES["queue"] = {  # noqa: F405
    **DATABASES["default"],  # noqa: F405
    "NAME": os.environ["ALIAS_DATABASE"],
}
DATABASE_ROUTERS = ["jobs.router.JobsRouter"]
JOBS = {**KEYS, "DATABASE": "queue"}  # noqa: F405
