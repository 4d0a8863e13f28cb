"""Plans with their versions, approvals, comments and slots, and the members of brands."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from publisher import channels
from publisher.clock import Now
from publisher.models.publishing import Account, Brand, Publication


class Member(models.Model):
    """What a user may do with a brand, beside Django's permissions."""

    class Role(models.TextChoices):
        """Each role may do what those before it may."""

        VIEWER = "viewer", _("viewer")
        EDITOR = "editor", _("editor")
        APPROVER = "approver", _("approver")
        MANAGER = "manager", _("manager")

    objects: ClassVar[models.Manager[Member]] = models.Manager()

    brand = models.ForeignKey(Brand, models.CASCADE, related_name="members")
    tenant = models.CharField(_("tenant"), max_length=80, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    role = models.CharField(_("role"), max_length=10, choices=Role.choices)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("member")
        verbose_name_plural = _("members")
        constraints = [
            models.UniqueConstraint(fields=["brand", "user"], name="publisher_member_once")
        ]

    def __str__(self) -> str:
        return f"{self.user} ({self.get_role_display()})"


class Template(models.Model):
    """A text with placeholders, from which plans of a brand begin."""

    objects: ClassVar[models.Manager[Template]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    brand = models.ForeignKey(Brand, models.PROTECT, related_name="templates")
    tenant = models.CharField(_("tenant"), max_length=80, editable=False)
    name = models.CharField(_("name"), max_length=150)
    content = models.JSONField(_("content"), default=dict)
    """As the content of a plan."""
    created_by = models.CharField(_("created by"), max_length=200)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("template")
        verbose_name_plural = _("templates")
        constraints = [
            models.UniqueConstraint(fields=["brand", "name"], name="publisher_template_once")
        ]
        indexes = [models.Index(fields=["-created_at", "id"], name="publisher_template_newest")]

    def __str__(self) -> str:
        return self.name


class Plan(models.Model):
    """A post for one or more channels, from its draft until it has appeared."""

    class Status(models.TextChoices):
        """How far the plan is. Only ``plan_states.plan`` moves it."""

        DRAFT = "draft", _("draft")
        READY = "ready", _("ready for approval")
        APPROVED = "approved", _("approved")
        SCHEDULED = "scheduled", _("scheduled")
        PUBLISHED = "published", _("published")
        FAILED = "failed", _("failed")

    objects: ClassVar[models.Manager[Plan]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    brand = models.ForeignKey(Brand, models.PROTECT, related_name="plans")
    tenant = models.CharField(_("tenant"), max_length=80, editable=False)
    title = models.CharField(_("title"), max_length=150)
    status = models.CharField(
        _("status"), max_length=10, choices=Status.choices, default=Status.DRAFT
    )
    version = models.PositiveIntegerField(_("version"), default=1)
    """The number of the current version of its content."""
    created_by = models.CharField(_("created by"), max_length=200)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("plan")
        verbose_name_plural = _("plans")
        permissions = [
            ("approve_plan", "Can approve plans"),
            ("schedule_plan", "Can schedule plans"),
        ]
        indexes = [
            models.Index(fields=["-created_at", "id"], name="publisher_plan_newest"),
            models.Index(fields=["brand", "-created_at", "id"], name="publisher_plan_of_brand"),
        ]

    def __str__(self) -> str:
        return self.title


class PlanVersion(models.Model):
    """The content of a plan as it once was. Versions are never changed."""

    objects: ClassVar[models.Manager[PlanVersion]] = models.Manager()

    plan = models.ForeignKey(Plan, models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(_("version"))
    content = models.JSONField(_("content"))
    by = models.CharField(_("by"), max_length=200)
    at = models.DateTimeField(_("at"), db_default=Now())

    class Meta:
        verbose_name = _("version")
        verbose_name_plural = _("versions")
        constraints = [
            models.UniqueConstraint(fields=["plan", "number"], name="publisher_version_once")
        ]

    def __str__(self) -> str:
        return f"{self.plan_id} v{self.number}"


class Approval(models.Model):
    """A decision about a version of a plan."""

    class Decision(models.TextChoices):
        """What was decided."""

        APPROVED = "approved", _("approved")
        REJECTED = "rejected", _("changes requested")

    objects: ClassVar[models.Manager[Approval]] = models.Manager()

    version = models.ForeignKey(PlanVersion, models.CASCADE, related_name="approvals")
    decision = models.CharField(_("decision"), max_length=10, choices=Decision.choices)
    note = models.TextField(_("note"), default="", blank=True)
    by = models.CharField(_("by"), max_length=200)
    at = models.DateTimeField(_("at"), db_default=Now())
    voided_at = models.DateTimeField(_("void since"), null=True, blank=True)
    """Since when the approval no longer counts, because the plan went back to draft."""

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")

    def __str__(self) -> str:
        return f"{self.version} {self.decision}"


class Comment(models.Model):
    """What somebody says about a plan. A mention is ``@`` and the name of a member."""

    objects: ClassVar[models.Manager[Comment]] = models.Manager()

    plan = models.ForeignKey(Plan, models.CASCADE, related_name="comments")
    body = models.TextField(_("comment"))
    mentions = models.JSONField(_("mentions"), default=list)
    """The user names of the members that it mentions."""
    by = models.CharField(_("by"), max_length=200)
    at = models.DateTimeField(_("at"), db_default=Now())

    class Meta:
        verbose_name = _("comment")
        verbose_name_plural = _("comments")

    def __str__(self) -> str:
        return self.body[:50]


class Slot(models.Model):
    """When a plan appears on one account."""

    class Note(models.TextChoices):
        """What the clocks did at its local time."""

        SKIPPED = "skipped", _("the clocks skip this time: it was moved forward")
        DOUBLED = "doubled", _("the clocks show this time twice: the first one counts")

    objects: ClassVar[models.Manager[Slot]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    plan = models.ForeignKey(Plan, models.CASCADE, related_name="slots")
    tenant = models.CharField(_("tenant"), max_length=80, editable=False)
    account = models.ForeignKey(Account, models.PROTECT, related_name="slots")
    channel = models.CharField(_("channel"), max_length=64, choices=channels.choices)
    local_time = models.CharField(_("local time"), max_length=19)
    """As the clocks of the zone show it, like ``2031-05-01T10:00:00``."""
    zone = models.CharField(_("time zone"), max_length=64)
    at = models.DateTimeField(_("at"))
    publish_until = models.DateTimeField(_("publish until"), null=True, blank=True)
    note = models.CharField(
        _("warning"), max_length=10, choices=Note.choices, default="", blank=True
    )
    publication = models.OneToOneField(
        Publication, models.PROTECT, null=True, blank=True, related_name="slot"
    )
    """Its publication while it is scheduled, and after."""

    class Meta:
        verbose_name = _("slot")
        verbose_name_plural = pgettext_lazy("plan", "slots")
        constraints = [
            models.UniqueConstraint(fields=["plan", "account", "at"], name="publisher_slot_once")
        ]
        indexes = [models.Index(fields=["account", "at"], name="publisher_slot_at")]

    def __str__(self) -> str:
        return f"{self.get_channel_display()} {self.local_time} {self.zone}"

    @property
    def is_closed(self) -> bool:
        """Return whether its post has appeared, or may have."""
        row = self.publication
        return row is not None and (
            row.status == Publication.Status.COMPLETED
            or row.reason == Publication.Reason.IN_DOUBT
            or bool(row.remote_id or row.doubted or row.handle.get("publishing"))
        )
