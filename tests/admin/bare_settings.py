"""Settings of a project that installs what the platform needs, and nothing else."""

from tests.settings import *  # noqa: F403
from tests.settings import CORE_APPS

INSTALLED_APPS = [app for app in CORE_APPS if app != "django.contrib.postgres"]
