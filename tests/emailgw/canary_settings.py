"""Settings of a fleet that is listened to: everything is logged, every span is written."""

from tests.integration.settings import *  # noqa: F403

INSTALLED_APPS += ["tests.emailgw.spans.Spans"]  # noqa: F405
LOGGING = {
    **LOGGING,  # noqa: F405
    "root": {"handlers": ["stderr"], "level": "DEBUG"},
    "loggers": {
        "jobs": {"level": "DEBUG"},
        "django.db.backends": {"level": "INFO"},
    },
}
