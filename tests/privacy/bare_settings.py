"""Settings of a project that has nothing to protect."""

from tests.settings import *  # noqa: F403

INSTALLED_APPS = [app for app in INSTALLED_APPS if not app.startswith("emailgw")]  # noqa: F405
