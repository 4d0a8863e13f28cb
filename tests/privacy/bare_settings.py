"""Settings of a project that has nothing to protect."""

from tests.settings import *  # noqa: F403
from tests.settings import CORE_APPS

INSTALLED_APPS = [app for app in CORE_APPS if app != "tests.specimens"]
