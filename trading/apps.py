"""The Django app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TradingConfig(AppConfig):
    """Register the checks and the permissions."""

    name = "trading"
    verbose_name = _("Trading coach")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from jobs import verbs
        from trading import checks as checks
        from trading.permissions import PERMISSIONS, TRADERS

        verbs.add_permissions("", PERMISSIONS)
        verbs.add_group(TRADERS, PERMISSIONS)
