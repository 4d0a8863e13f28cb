"""Operations, and the steps that each has taken."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from jobs.fields import EncryptedJSONField, EncryptedTextField
from operations import table
from operations.clock import Now
from operations.models.agent import Agent


class Phase(models.TextChoices):
    """How far an operation is."""

    QUEUED = "queued", _("queued")
    IN_PROGRESS = "in_progress", _("in progress")
    ERP_SAVE_DONE = "erp_save_done", _("saved in the ERP")
    DB_COMMITTED = "db_committed", _("stored here")
    COMPLETED = "completed", _("completed")
    IN_DOUBT = "in_doubt", _("in doubt")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")


class Operation(models.Model):
    """An operation. Its id is the id of its job, and its reference in the ERP."""

    objects: ClassVar[models.Manager[Operation]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(
        Agent, models.PROTECT, related_name="operations", verbose_name=_("agent")
    )
    tenant = models.CharField(max_length=70)
    type = models.CharField(_("type"), max_length=40)
    entity = models.CharField(_("entity"), max_length=160, default="", blank=True)
    """What it works on, such as ``orderId:4711``."""
    data: Any = EncryptedJSONField(tenant_field="agent")
    digest = models.CharField(max_length=64)
    phase = models.CharField(_("phase"), max_length=20, choices=Phase.choices, default=Phase.QUEUED)
    erp_id = models.CharField(_("number in the ERP"), max_length=80, default="", blank=True)
    error_code = models.CharField(_("error"), max_length=60, default="", blank=True)
    error_words = EncryptedTextField(tenant_field="agent", default="")
    """What the ERP said; never shown in a list."""
    mismatch: Any = EncryptedJSONField(tenant_field="agent", default=list)
    """Where the ERP's values differ from those that were sent."""
    takes_erp_values = models.BooleanField(default=False)
    """Whether a person has accepted the ERP's values."""
    result: Any = models.JSONField(_("result"), default=dict)
    wanted_end = models.CharField(max_length=20, default="", blank=True)
    """Whether it is to be cancelled or failed if the ERP turns out not to have it."""
    asked_by = models.CharField(_("asked by"), max_length=150, default="", blank=True)
    created_at = models.DateTimeField(_("created"), db_default=Now())
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("operation")
        verbose_name_plural = _("operations")
        permissions = [("act_for_agents", _("Can act for agents"))]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "entity"],
                condition=Q(type="submit-order") & ~Q(phase__in=["failed", "cancelled"]),
                name="operations_operation_pending_once",
            )
        ]
        indexes = [
            models.Index(fields=["agent", "-created_at", "id"], name="operations_op_newest"),
            models.Index(fields=["-created_at", "id"], name="operations_op_newest_all"),
            models.Index(
                fields=["agent", "type"],
                condition=~Q(phase__in=["completed", "failed", "cancelled"]),
                name="operations_op_open",
            ),
            models.Index(fields=["agent", "entity"], condition=~Q(entity=""),
                         name="operations_op_entity"),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.type} …{str(self.id)[-8:]}"

    @property
    def spec(self) -> table.Operation:
        """Return its line of the table."""
        return table.OPERATIONS[self.type]

    @property
    def is_write(self) -> bool:
        """Whether it changes the ERP."""
        return self.spec.family is table.Family.WRITE

    @property
    def awaits_decision(self) -> bool:
        """Whether a person has to say what is to become of values that differ."""
        return bool(self.mismatch) and not self.takes_erp_values

    @property
    def has_wrong_number(self) -> bool:
        """Whether the ERP has nothing under the number that a person has given."""
        return self.awaits_decision and any(one["field"] == "id" for one in self.mismatch)

    @property
    def temporary_id(self) -> str:
        """Return the local id of what it creates, until the ERP has given it a number."""
        return f"TEMP-{self.id}"

    @property
    def entity_name(self) -> str:
        """Return a name of what it works on, without personal data."""
        name, _colon, value = self.entity.partition(":")
        noun = {"orderId": "Order", "pendingOrderId": "Pending order"}.get(name, "Customer")
        return f"{noun} {value}" if value else ""


class Step(models.Model):
    """A move of an operation from phase to phase."""

    objects: ClassVar[models.Manager[Step]] = models.Manager()

    id = models.BigAutoField(primary_key=True)
    operation = models.ForeignKey(Operation, models.CASCADE, related_name="steps")
    phase = models.CharField(_("phase"), max_length=20, choices=Phase.choices)
    by = models.CharField(_("by"), max_length=150, default="")
    why = models.CharField(_("reason"), max_length=200, default="")
    at = models.DateTimeField(_("at"), db_default=Now())

    class Meta:
        verbose_name = _("step")
        verbose_name_plural = _("steps")

    def __str__(self) -> str:
        return f"{self.operation_id} {self.phase}"
