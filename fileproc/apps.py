"""The Django app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class FileprocConfig(AppConfig):
    """Register the checks and permissions, and make the table of vectors where that is possible."""

    name = "fileproc"
    verbose_name = _("Documents")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from fileproc import checks as checks
        from fileproc.indexing import postgres
        from fileproc.verbs import PERMISSIONS
        from jobs import verbs

        verbs.add_permissions("", PERMISSIONS)
        post_migrate.connect(postgres.after_migrate, sender=self)
