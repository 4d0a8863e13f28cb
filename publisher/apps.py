"""The Django app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class PublisherConfig(AppConfig):
    """Register the checks and the permissions."""

    name = "publisher"
    verbose_name = _("Publisher")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from jobs import verbs
        from publisher import asset_verbs as asset_verbs
        from publisher import brand_verbs as brand_verbs
        from publisher import checks as checks
        from publisher import consents as consents
        from publisher import member_verbs as member_verbs
        from publisher import plan_verbs as plan_verbs
        from publisher import problems as problems
        from publisher import template_verbs as template_verbs
        from publisher.verbs import PERMISSIONS

        verbs.add_permissions("", PERMISSIONS)
