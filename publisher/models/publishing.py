"""Brands, their accounts, and publications with their history."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.core.validators import RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.fields import EncryptedJSONField, EncryptedTextField
from publisher import channels
from publisher.clock import Now


class Brand(models.Model):
    """A brand. Its tenant is ``brand:<slug>``, so the slug never changes."""

    objects: ClassVar[models.Manager[Brand]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.CharField(
        _("slug"), max_length=60, unique=True,
        validators=[RegexValidator(r"^[a-z0-9]+(?:-[a-z0-9]+)*\Z")],
    )  # fmt: skip
    name = models.CharField(_("name"), max_length=150)
    tenant = models.CharField(_("tenant"), max_length=80, unique=True, editable=False)
    time_zone = models.CharField(_("time zone"), max_length=64, default="UTC")
    posting_times = models.JSONField(_("posting times"), default=list, blank=True)
    """Such as ``[{"time": "09:00", "days": [1, 2]}]``: 0 is Sunday, no days are every day."""
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("brand")
        verbose_name_plural = _("brands")

    def __str__(self) -> str:
        return self.name


class Account(models.Model):
    """An account of a brand on a channel, with the tokens to publish there."""

    class Status(models.TextChoices):
        """Whether the account can be published to."""

        CONNECTED = "connected", _("connected")
        NEEDS_RECONNECT = "needs_reconnect", _("needs reconnecting")
        DISABLED = "disabled", _("disabled")

    objects: ClassVar[models.Manager[Account]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    brand = models.ForeignKey(Brand, models.PROTECT, related_name="accounts")
    tenant = models.CharField(_("tenant"), max_length=80, editable=False)
    channel = models.CharField(_("channel"), max_length=64, choices=channels.choices)
    name = models.CharField(_("name"), max_length=150)
    remote_account = models.CharField(_("id at the provider"), max_length=200)
    """A page, an Instagram user, ``accounts/1/locations/2``, or the user name on a blog."""
    base_url = models.CharField(_("address"), max_length=500, default="", blank=True)
    """The site of a blog; elsewhere the address of the provider's API, if it is not the usual."""
    token = EncryptedTextField(_("token"), tenant_field="tenant")
    refresh_token = EncryptedTextField(_("refresh token"), tenant_field="tenant", default="")
    app_password = EncryptedTextField(_("application password"), tenant_field="tenant", null=True)
    """Of Bluesky, whose tokens are those of a session that it begins."""
    expires_at = models.DateTimeField(_("token expires"), null=True, blank=True)
    text_limit = models.PositiveIntegerField(_("longest text"), null=True, blank=True)
    """As its server says, where servers of the channel differ."""
    status = models.CharField(
        _("status"), max_length=20, choices=Status.choices, default=Status.CONNECTED
    )
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("account")
        verbose_name_plural = _("accounts")
        constraints = [
            models.UniqueConstraint(
                fields=["brand", "channel", "remote_account", "base_url"],
                name="publisher_account_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.get_channel_display()})"

    @property
    def limit_key(self) -> str:
        """Return the key of its limits."""
        return f"publisher:{self.pk}"


class Refusal(models.Model):
    """A channel whose provider refuses this project's own client; its posts wait meanwhile."""

    objects: ClassVar[models.Manager[Refusal]] = models.Manager()

    channel = models.CharField(
        _("channel"), primary_key=True, max_length=64, choices=channels.choices
    )
    code = models.CharField(_("error"), max_length=100)
    since = models.DateTimeField(_("since"), db_default=Now())

    class Meta:
        verbose_name = _("refused client")
        verbose_name_plural = _("refused clients")

    def __str__(self) -> str:
        return f"{self.get_channel_display()}: {self.code}"


class Publication(models.Model):
    """A post on one account. Its id is also the id of its job."""

    class Status(models.TextChoices):
        """How far the post is. Only ``states.publication`` moves it."""

        PENDING = "pending", _("pending")
        RUNNING = "running", _("running")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")

    class Reason(models.TextChoices):
        """Why a post has failed."""

        EXHAUSTED = "exhausted", _("all attempts failed")
        PERMANENT = "permanent", _("refused")
        EXPIRED = "expired", _("too late")
        CANCELLED = "cancelled", _("cancelled")
        IN_DOUBT = "in_doubt", _("in doubt")

    objects: ClassVar[models.Manager[Publication]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    brand = models.ForeignKey(Brand, models.PROTECT, related_name="publications")
    tenant = models.CharField(_("tenant"), max_length=80, editable=False)
    account = models.ForeignKey(Account, models.PROTECT, related_name="publications")
    channel = models.CharField(_("channel"), max_length=64, choices=channels.choices)
    type = models.CharField(_("type"), max_length=20, default="publish")
    """``publish`` or ``ig_first_comment``."""
    key = models.CharField(_("key"), max_length=191)
    key_version = models.PositiveSmallIntegerField(_("key version"), default=1)
    content = models.JSONField(_("content"))
    """The text, links and media as they were accepted."""
    scheduled_at = models.DateTimeField(_("scheduled"))
    run_at = models.DateTimeField(_("next attempt"))
    publish_until = models.DateTimeField(_("publish until"))
    status = models.CharField(
        _("status"), max_length=10, choices=Status.choices, default=Status.PENDING
    )
    reason = models.CharField(
        _("reason"), max_length=10, choices=Reason.choices, default="", blank=True
    )
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    error = models.TextField(_("error"), default="", blank=True)
    doubted = models.BooleanField(_("was in doubt"), default=False)
    """Whether the outcome of a publishing call was ever unknown."""
    remote_id = models.CharField(_("id at the provider"), max_length=191, default="", blank=True)
    url = models.CharField(_("link"), max_length=2000, default="", blank=True)
    parent = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="children"
    )
    plan_version = models.ForeignKey(
        "PlanVersion", models.PROTECT, null=True, blank=True, related_name="publications"
    )
    """The version of a plan that it publishes, where it belongs to one."""
    handle = EncryptedJSONField(_("handle"), tenant_field="tenant", default=dict)
    """What the provider has handed out for the steps before the last one."""
    created_at = models.DateTimeField(_("created"), db_default=Now())
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("publication")
        verbose_name_plural = _("publications")
        constraints = [
            models.UniqueConstraint(
                fields=["brand", "channel", "key"], name="publisher_publication_once"
            )
        ]
        indexes = [
            models.Index(fields=["-scheduled_at", "id"], name="publisher_newest"),
            models.Index(fields=["brand", "-scheduled_at", "id"], name="publisher_of_brand"),
            models.Index(fields=["account", "scheduled_at"], name="publisher_of_account"),
        ]

    def __str__(self) -> str:
        return f"{self.get_channel_display()} …{str(self.id)[-8:]}"


class PublicationEvent(models.Model):
    """An entry of a publication's history."""

    objects: ClassVar[models.Manager[PublicationEvent]] = models.Manager()

    publication = models.ForeignKey(Publication, models.CASCADE, related_name="events")
    type = models.CharField(_("event"), max_length=20)
    by = models.CharField(_("by"), max_length=200, default="")
    detail = models.JSONField(default=dict)
    at = models.DateTimeField(_("at"), db_default=Now())

    class Meta:
        verbose_name = _("entry")
        verbose_name_plural = _("entries")
        indexes = [models.Index(fields=["publication", "id"], name="publisher_history")]

    def __str__(self) -> str:
        return f"{self.publication_id} {self.type}"
