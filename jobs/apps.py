"""The Django app."""

import sys

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class JobsConfig(AppConfig):
    """Registers the models, finds every app's handlers and checks the settings."""

    name = "jobs"
    verbose_name = _("Background jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from jobs import checks as checks
        from jobs import protection, registry, verbs

        registry.autodiscover()
        verbs.autodiscover()
        if not _only_checks():
            protection.require_keys()


def _only_checks() -> bool:
    """`manage.py check` says itself what is missing, with everything else that is wrong."""
    return sys.argv[1:2] == ["check"]
