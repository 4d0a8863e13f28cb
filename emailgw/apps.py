"""The Django app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class EmailgwConfig(AppConfig):
    """Checks the settings, and listens to what providers tell of delivered mail."""

    name = "emailgw"
    verbose_name = _("Email gateway")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from emailgw import checks as checks
        from emailgw import feedback as feedback
        from emailgw.people import PERMISSIONS
        from jobs import acts

        acts.add_permissions("emailgw", PERMISSIONS)
