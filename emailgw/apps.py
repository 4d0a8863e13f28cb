"""The Django app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class EmailgwConfig(AppConfig):
    """Register the checks, the permissions, and the receiver of provider events."""

    name = "emailgw"
    verbose_name = _("Email gateway")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from emailgw import checks as checks
        from emailgw import feedback as feedback
        from emailgw.verbs import PERMISSIONS
        from jobs import verbs

        verbs.add_permissions("", PERMISSIONS)
