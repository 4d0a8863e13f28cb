"""The project's settings, with the specimen jobs of the tests."""

from config.settings import *  # noqa: F403

INSTALLED_APPS += ["tests.specimens"]  # noqa: F405
