"""Agents: who works through the ERP, with a login of their own."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.fields import EncryptedTextField
from operations.clock import Now

PREFIX = "agent:"


class Login(models.TextChoices):
    """What is known of an agent's login."""

    UNTESTED = "untested", _("not tested yet")
    GOOD = "good", _("accepted")
    REFUSED = "refused", _("refused")
    TESTING = "testing", _("being tested")


class ClientKind(models.TextChoices):
    """How an agent's work reaches the ERP."""

    HTTP = "http", _("JSON over HTTP")
    BROWSER = "browser", _("pages in a browser")


class Agent(models.Model):
    """A sales agent. The key never changes: jobs and tenants are named after it."""

    objects: ClassVar[models.Manager[Agent]] = models.Manager()

    key = models.CharField(
        _("key"), max_length=60, primary_key=True, validators=[RegexValidator(r"^[a-z0-9-]+\Z")]
    )
    tenant = models.CharField(max_length=70, unique=True, editable=False)
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True,
        related_name="operations_agent", verbose_name=_("user"),
    )  # fmt: skip
    erp_login = models.CharField(_("login"), max_length=100)
    password = EncryptedTextField(_("password"))
    client = models.CharField(
        _("client"), max_length=10, choices=ClientKind.choices, default=ClientKind.HTTP
    )
    login = models.CharField(
        _("login"), max_length=10, choices=Login.choices, default=Login.UNTESTED
    )
    login_tested_at = models.DateTimeField(_("tested"), null=True, blank=True)
    is_active = models.BooleanField(_("active"), default=True)
    last_seen_at = models.DateTimeField(_("last seen"), null=True, blank=True)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("agent")
        verbose_name_plural = _("agents")
        permissions = [("view_mirror", _("Can see the mirror of the ERP"))]

    def __str__(self) -> str:
        return self.key

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Store the agent under the tenant of its key."""
        self.tenant = f"{PREFIX}{self.key}"
        super().save(*args, **kwargs)


class SyncState(models.Model):
    """How the syncs of a type go for an agent."""

    objects: ClassVar[models.Manager[SyncState]] = models.Manager()

    agent = models.ForeignKey(Agent, models.CASCADE, related_name="syncs")
    type = models.CharField(_("type"), max_length=40)
    succeeded_at = models.DateTimeField(_("succeeded"), null=True, blank=True)
    failures = models.PositiveSmallIntegerField(_("failures in a row"), default=0)
    failed_today = models.PositiveSmallIntegerField(_("failures of a day"), default=0)
    counting_since = models.DateTimeField(null=True, blank=True)
    paused_until = models.DateTimeField(_("paused until"), null=True, blank=True)

    class Meta:
        verbose_name = _("state of syncs")
        verbose_name_plural = _("states of syncs")
        constraints = [
            models.UniqueConstraint(fields=["agent", "type"], name="operations_syncstate_once")
        ]

    def __str__(self) -> str:
        return f"{self.agent_id} {self.type}"
