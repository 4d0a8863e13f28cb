"""The privacy kit: encrypted columns, blind indexes, masks and redaction. See docs/privacy.md.

::

    class Recipient(models.Model):
        id = models.UUIDField(primary_key=True, default=uuid7)
        company = models.CharField(max_length=40)
        cpf = EncryptedTextField(tenant_field="company")
        cpf_index = BlindIndexField("cpf", tenant_field="company", normalise=normalise_document)

    Recipient.objects.filter(cpf_index=index_of(Recipient, "cpf_index", number, company))
"""

from __future__ import annotations

from jobs.errors import SealError, UnknownKey
from jobs.fields.columns import EncryptedJSONField, EncryptedTextField, Unopened
from jobs.fields.indexes import (
    BlindIndexField,
    index_of,
    normalise_document,
    normalise_email,
)
from jobs.keyring import blind_index
from jobs.masks import HIDDEN, mask, mask_document, mask_email
from jobs.redaction import (
    RedactingFilter,
    declare,
    processor,
    redact,
    redact_text,
    scrubbing,
    visible,
)
from jobs.sensitive import Sensitive

__all__ = [
    "HIDDEN",
    "BlindIndexField",
    "EncryptedJSONField",
    "EncryptedTextField",
    "RedactingFilter",
    "SealError",
    "Sensitive",
    "UnknownKey",
    "Unopened",
    "blind_index",
    "declare",
    "index_of",
    "mask",
    "mask_document",
    "mask_email",
    "normalise_document",
    "normalise_email",
    "processor",
    "redact",
    "redact_text",
    "scrubbing",
    "visible",
]
