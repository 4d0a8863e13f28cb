"""The project's settings, with the specimen jobs of the benchmarks."""

from config.settings import *  # noqa: F403

INSTALLED_APPS += ["benchmarks.specimens"]  # noqa: F405

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
