"""Recipients of a company."""

from __future__ import annotations

import unicodedata
import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from emailgw.clock import Now
from emailgw.documents import PURPOSE
from emailgw.models.company import Company
from jobs.fields import (
    BlindIndexField,
    EncryptedTextField,
    mask_email,
    normalise_document,
    normalise_email,
)


def normalise_name(name: str) -> str:
    """Return a name as it is compared: without regard to case, spacing and Unicode forms."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


class Recipient(models.Model):
    """A person or organisation that a company writes to."""

    objects: ClassVar[models.Manager[Recipient]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    company = models.ForeignKey(Company, models.PROTECT, related_name="recipients")
    external_id = models.CharField(_("external id"), max_length=64, null=True, blank=True)  # noqa: DJ001 - unique where there is one
    former_external_id = models.CharField(max_length=64, null=True, editable=False)  # noqa: DJ001
    """The external id before it moved to the row of a newer address; its emails stay here."""
    email = EncryptedTextField(_("email"), tenant_field="company")
    email_index = BlindIndexField("email", tenant_field="company", normalise=normalise_email)
    cpf_cnpj = EncryptedTextField(_("CPF or CNPJ"), tenant_field="company", null=True)
    cpf_cnpj_hash = BlindIndexField(
        "cpf_cnpj", tenant_field="company", purpose=PURPOSE, normalise=normalise_document
    )
    razao_social = EncryptedTextField(_("company name"), tenant_field="company", null=True)
    razao_social_index = BlindIndexField(
        "razao_social", tenant_field="company", normalise=normalise_name
    )
    nome = EncryptedTextField(_("name"), tenant_field="company", null=True)
    nome_index = BlindIndexField("nome", tenant_field="company", normalise=normalise_name)
    created_at = models.DateTimeField(_("created"), db_default=Now())
    deleted_at = models.DateTimeField(_("deleted"), null=True, blank=True)

    class Meta:
        db_table = "emailgw_recipient"
        verbose_name = _("recipient")
        verbose_name_plural = _("recipients")
        permissions = [("reveal_recipient", _("Can see recipients in clear"))]
        constraints = [
            models.UniqueConstraint(
                fields=["company", "external_id"],
                condition=models.Q(external_id__isnull=False),
                name="emailgw_recipient_external_id",
            )
        ]
        indexes = [
            models.Index(
                fields=["company", "former_external_id"],
                condition=models.Q(former_external_id__isnull=False),
                name="emailgw_recipient_former_id",
            )
        ]

    def __str__(self) -> str:
        return mask_email(self.email)
