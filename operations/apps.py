"""The Django app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class OperationsConfig(AppConfig):
    """Register the checks and the permissions."""

    name = "operations"
    verbose_name = _("Operations")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from jobs import verbs
        from operations import checks as checks
        from operations.verbs import PERMISSIONS

        verbs.add_permissions("", PERMISSIONS)
