"""Encrypted columns: text or JSON that opens only in the row, column and tenant it was written for.

A value is sealed when its row is saved, and opened when the attribute is read. What bypasses the
row is refused with an error: ``update()``, ``bulk_update()``, fixtures and every lookup but
``isnull``. ``values()`` answers ``Unopened``, which shows nothing.
"""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from django.core import checks
from django.core.exceptions import FieldError
from django.db import models
from django.db.models.query_utils import DeferredAttribute
from django.db.models.signals import post_init

from jobs import keyring
from jobs.errors import SealError
from jobs.keyring import Place
from jobs.masks import HIDDEN

if TYPE_CHECKING:
    _Field = models.Field[Any, Any]
else:
    _Field = models.Field


class Unopened:
    """A sealed value as it came from the database: no text, equal to nothing, shown as nothing."""

    __slots__ = ("_sealed", "place")

    def __init__(self, sealed: str) -> None:
        self._sealed = sealed
        self.place: Place | None = None
        """Where its row stood when it was read."""

    def __repr__(self) -> str:
        return "<sealed>"

    def __deepcopy__(self, memo: Any) -> Unopened:
        return self

    def __reduce__(self) -> Any:
        raise SealError("a sealed value cannot be pickled; read the attribute instead")

    @property
    def key_id(self) -> str:
        """The id of the key that it was sealed with."""
        return keyring.key_id(self._sealed)


class _Envelope(str):
    """Sealed text on its way into the database: only ``pre_save`` makes it."""

    __slots__ = ()


class _Attribute(DeferredAttribute):
    """Reads the column in clear. Having a setter, it comes before the instance's dictionary."""

    field: EncryptedField

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        value = super().__get__(instance, owner)
        if isinstance(value, Unopened):
            place = value.place or self.field.place(instance)
            value = instance.__dict__[self.field.attname] = self.field.open(value, place)
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class EncryptedField(_Field, ABC):
    """Base of the encrypted columns.

    ``tenant_field`` names the attribute that says whose row it is. The row's primary key must be
    known before the insert: a UUID with a default made in Python, or any key that is given.
    """

    descriptor_class: Any = _Attribute

    def __init__(self, *args: Any, tenant_field: str = "", **kwargs: Any) -> None:
        self.tenant_field = tenant_field
        kwargs.setdefault("editable", False)  # forms would show it
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        if self.tenant_field:
            kwargs["tenant_field"] = self.tenant_field
        if self.editable:
            kwargs["editable"] = True
        else:
            kwargs.pop("editable", None)
        return name, f"jobs.fields.{type(self).__name__}", args, kwargs

    def get_internal_type(self) -> str:
        return "TextField"

    def contribute_to_class(self, cls: Any, name: str, private_only: bool = False) -> None:
        super().contribute_to_class(cls, name, private_only)
        if not cls._meta.abstract:
            post_init.connect(_remember_places, sender=cls, dispatch_uid=f"jobs.fields.{id(cls)}")

    # ---- to and from clear

    def place(self, instance: Any) -> Place:
        """Where the instance's value belongs."""
        if instance.pk is None:
            raise SealError(f"{self}: the row has no primary key yet, to which it is bound")
        tenant = getattr(instance, self.tenant_attribute) if self.tenant_field else ""
        if tenant is None:
            raise SealError(f"{self}: {self.tenant_field} is None; the value is bound to it")
        return self.place_of(instance.pk, tenant)

    @property
    def tenant_attribute(self) -> str:
        """The attribute that holds the tenant; of a foreign key, its id."""
        return tenant_column(self.model, self.tenant_field).attname

    def place_of(self, row: Any, tenant: Any = "") -> Place:
        """Where the value of a row of this tenant belongs."""
        meta = self.model._meta
        owner = canonical(self.model, self.tenant_field, tenant) if self.tenant_field else ""
        return Place(meta.db_table, str(self.column), canonical(self.model, "pk", row), owner)

    def open(self, value: Unopened, place: Place) -> Any:
        """The value in clear."""
        return self.loads(keyring.ring().open(value._sealed, place).decode())

    @abstractmethod
    def dumps(self, value: Any) -> str:
        """The value as text."""

    @abstractmethod
    def loads(self, text: str) -> Any:
        """The text as value."""

    # ---- to and from the database

    def from_db_value(self, value: Any, *_: Any) -> Any:
        return None if value is None else Unopened(value)

    def pre_save(self, model_instance: Any, add: bool) -> Any:
        value = model_instance.__dict__.get(self.attname)
        if self.attname not in model_instance.__dict__:
            value = getattr(model_instance, self.attname)
        if value is None:
            return None
        place = self.place(model_instance)
        if isinstance(value, Unopened):
            if value.place == place:
                return _Envelope(value._sealed)
            value = self.open(value, value.place or place)
            model_instance.__dict__[self.attname] = value
        elif hasattr(value, "resolve_expression"):
            raise FieldError(f"{self}: an encrypted column takes values, not expressions")
        return _Envelope(keyring.ring().seal(self.dumps(value).encode(), place))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if value is None:
            return None
        if isinstance(value, _Envelope):
            return str(value)
        raise FieldError(
            f"{self}: an encrypted column is written by save() or bulk_create() of its row, which "
            "it is bound to; not by update(), bulk_update() or a fixture, and it cannot be searched"
        )

    def get_lookup(self, lookup_name: str) -> Any:
        return super().get_lookup(lookup_name) if lookup_name == "isnull" else None

    def get_transform(self, lookup_name: str) -> Any:
        return None

    def value_to_string(self, obj: Any) -> str:
        return HIDDEN  # dumps of data go anywhere

    # ---- checks

    def check(self, **kwargs: Any) -> list[Any]:
        return [*super().check(**kwargs), *self._check_options(), *self._check_row()]

    def _check_options(self) -> list[checks.CheckMessage]:
        found: list[checks.CheckMessage] = []
        names = {f.attname for f in self.model._meta.concrete_fields} | {
            f.name for f in self.model._meta.concrete_fields
        }
        if self.tenant_field and self.tenant_field not in names:
            found.append(
                checks.Error(
                    f"tenant_field is {self.tenant_field!r}, which the model lacks",
                    obj=self,
                    id="jobs.fields.E001",
                )
            )
        if self.primary_key or self.unique or getattr(self, "db_index", False):
            found.append(
                checks.Error(
                    "an encrypted column is no key and has no index: the same value is sealed "
                    "differently each time",
                    "add a BlindIndexField",
                    obj=self,
                    id="jobs.fields.E002",
                )
            )
        return found

    def _check_row(self) -> list[checks.CheckMessage]:
        if not isinstance(_origin(self.model._meta.pk), models.AutoField):
            return []
        return [
            checks.Error(
                "the primary key is made by the database, but the value is bound to it before",
                "id = models.UUIDField(primary_key=True, default=uuid.uuid4)",
                obj=self,
                id="jobs.fields.E003",
            )
        ]


def _remember_places(sender: Any, instance: Any, **_: Any) -> None:
    """What was read is bound to the row as it was read, whatever the instance says later."""
    for field in encrypted_fields(sender):
        value = instance.__dict__.get(field.attname)
        if isinstance(value, Unopened) and (
            not field.tenant_field or field.tenant_attribute in instance.__dict__
        ):
            value.place = field.place(instance)


def tenant_column(model: Any, name: str) -> models.Field[Any, Any]:
    """The column that holds the tenant."""
    field: models.Field[Any, Any] = model._meta.get_field(name)
    return field


def _origin(field: Any) -> Any:
    """The column that a key refers to in the end."""
    while field is not None and field.remote_field is not None:
        field = field.target_field
    return field


def canonical(model: Any, name: str, value: Any) -> str:
    """The column's value as one text, however it was spelt: a UUID may be given as text."""
    field = model._meta.pk if name == "pk" else tenant_column(model, name)
    return str(_origin(field).to_python(value))


@functools.lru_cache(maxsize=1024)
def encrypted_fields(model: Any) -> tuple[EncryptedField, ...]:
    """The encrypted columns of the model's own table."""
    return tuple(f for f in model._meta.local_concrete_fields if isinstance(f, EncryptedField))


class EncryptedTextField(EncryptedField):
    """Text, encrypted."""

    def dumps(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{self}: must be text, got {type(value).__name__}")
        return value

    def loads(self, text: str) -> str:
        return text


class EncryptedJSONField(EncryptedField):
    """Whatever JSON holds, encrypted."""

    def dumps(self, value: Any) -> str:
        try:
            return json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise TypeError(f"{self}: the value has no JSON") from None

    def loads(self, text: str) -> Any:
        return json.loads(text)
