"""The settings of the project into which the documents are pasted: it has an app ``shop``."""

from tests.settings import *  # noqa: F403

INSTALLED_APPS += ["shop"]  # noqa: F405
