"""Models with protected columns, and payloads with protected fields, as apps have them."""

from __future__ import annotations

import base64
import uuid
from typing import Any, ClassVar

from django.db import connection, models
from django.test.utils import isolate_apps

import jobs
from jobs.fields import (
    BlindIndexField,
    EncryptedJSONField,
    EncryptedTextField,
    normalise_document,
)

OLD = base64.urlsafe_b64encode(b"o" * 32).decode()
NEW = base64.b64encode(b"n" * 31 + b"\xff").decode()
INDEX = base64.b64encode(b"i" * 32).decode()
KEYS = {"KEYS": {"old": OLD}, "INDEX_KEY": INDEX}
BOTH = {"KEYS": {"new": NEW, "old": OLD}, "INDEX_KEY": INDEX}
ONLY_NEW = {"KEYS": {"new": NEW}, "INDEX_KEY": INDEX}

# Unknown to the project's own registry, so that no other test needs a key.
with isolate_apps("tests.specimens"):

    class Person(models.Model):
        """Somebody of a company."""

        objects: ClassVar[models.Manager[Person]] = models.Manager()

        id = models.UUIDField(primary_key=True, default=uuid.uuid4)
        company = models.CharField(max_length=20)
        cpf = EncryptedTextField(tenant_field="company", null=True)
        notes = EncryptedTextField(default="", blank=True)
        extra = EncryptedJSONField(tenant_field="company", default=dict)
        cpf_index = BlindIndexField("cpf", tenant_field="company", normalise=normalise_document)

        class Meta:
            app_label = "specimens"
            db_table = "privacy_person"

        def __str__(self) -> str:
            return str(self.pk)


MODELS = [Person]


def create_tables() -> None:
    """The models have their tables, until the test's transaction is rolled back."""
    with connection.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)


class Register(jobs.Payload, kind="privacy.register"):
    number: int
    how: str = "succeed"
    cpf: jobs.Sensitive[str]
    contact: jobs.Sensitive[dict[str, Any] | None] = None


def raw(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """What the statement answers."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []
