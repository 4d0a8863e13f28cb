"""Settings of a host that leaves ``LOGGING`` as Django has it, and installs an error tracker."""

from tests.integration.settings import *  # noqa: F403

LOGGING = {}
INSTALLED_APPS += ["tests.integration.tracker.Tracker"]  # noqa: F405
