"""Keys of programs that use the API, and the answers that it keeps for a while."""

from django.db import models
from django.db.models import Value
from django.utils.translation import gettext_lazy as _

from jobs.models.arrays import ArrayField
from jobs.models.clock import Clock


class ApiKey(models.Model):
    """A secret that somebody's program shows, and what it may do; only a hash of it is here.

    After a rotation the previous secret is good until ``previous_until``. Tenants, queues and
    addresses that are NULL are not limited.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.TextField(_("name"))
    prefix = models.TextField(_("public part"), unique=True)
    secret_hash = models.TextField(editable=False)
    previous_hash = models.TextField(default="", db_default="", editable=False)
    previous_until = models.DateTimeField(_("previous secret until"), null=True, editable=False)
    permissions = ArrayField(models.TextField(), verbose_name=_("permissions"), default=list)
    tenants = ArrayField(models.TextField(), verbose_name=_("tenants"), null=True)
    queues = ArrayField(models.TextField(), verbose_name=_("queues"), null=True)
    addresses = ArrayField(
        models.TextField(),
        verbose_name=_("allowed addresses"),
        default=list,
        db_default=Value([], ArrayField(models.TextField())),
    )
    is_staff = models.BooleanField(_("sees events of staff"), default=False, db_default=False)
    created_at = models.DateTimeField(_("created at"), db_default=Clock())
    created_by = models.TextField(_("created by"), default="", db_default="")
    expires_at = models.DateTimeField(_("expires at"), null=True)
    last_used_at = models.DateTimeField(_("last used at"), null=True)
    rotated_at = models.DateTimeField(_("rotated at"), null=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True)
    revoked_by = models.TextField(_("revoked by"), default="", db_default="")

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        db_table = "jobs_apikey"
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["created_at", "id"], name="jobs_apikey_created")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"


class Answer(models.Model):
    """What the API answered to a request with an Idempotency-Key, from the transaction of the
    effect itself; a repeated request gets it again."""

    id = models.BigAutoField(primary_key=True)
    principal = models.TextField(_("principal"))
    method = models.TextField(_("method"))
    path = models.TextField(_("path"))
    key = models.TextField(_("key"))
    fingerprint = models.TextField(_("fingerprint of the request"))
    status = models.SmallIntegerField(_("status"))
    headers = models.JSONField(_("headers"), default=dict)
    body = models.TextField(_("body"), default="", db_default="")
    created_at = models.DateTimeField(_("created at"), db_default=Clock())

    class Meta:
        verbose_name = _("kept answer")
        verbose_name_plural = _("kept answers")
        db_table = "jobs_api_answer"
        ordering = ["id"]
        indexes = [models.Index(fields=["created_at", "id"], name="jobs_answer_created")]
        constraints = [
            models.UniqueConstraint(
                fields=["principal", "method", "path", "key"], name="jobs_answer_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.path}: {self.status}"
