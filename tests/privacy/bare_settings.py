"""Settings of a project that has nothing to protect."""

from tests.settings import *  # noqa: F403
from tests.settings import CORE_APPS as INSTALLED_APPS  # noqa: F401
