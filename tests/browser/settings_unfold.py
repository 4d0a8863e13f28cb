"""The tests' settings with django-unfold, which needs inline styles and eval."""

from tests.settings import *  # noqa: F403

INSTALLED_APPS = ["unfold", *INSTALLED_APPS]  # noqa: F405
CONTENT_SECURITY_POLICY = ""
