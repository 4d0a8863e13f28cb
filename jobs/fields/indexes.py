"""Blind indexes: exact search for values that are stored encrypted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.core import checks
from django.core.exceptions import FieldDoesNotExist, FieldError
from django.db import models

from jobs.fields.columns import canonical, tenant_column
from jobs.keyring import blind_index

if TYPE_CHECKING:
    _CharField = models.CharField[Any, Any]
else:
    _CharField = models.CharField

_PUNCTUATION = re.compile(r"[^A-Z0-9]")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
Normalise = Callable[[str], str]


def normalise_document(number: str) -> str:
    """A CPF or CNPJ without its punctuation: letters and digits, in capitals."""
    return _PUNCTUATION.sub("", number.upper())


def normalise_email(address: str) -> str:
    """An address without surrounding space, in small letters."""
    return address.strip().lower()


def _as_it_is(value: str) -> str:
    return value


class BlindIndexField(_CharField):
    """Follows another column of the row: 64 hex digits that tell equal values, and nothing else.

    ``normalise`` makes of different spellings one; give it by its name in a module.
    """

    def __init__(
        self,
        source: str = "",
        *,
        tenant_field: str = "",
        purpose: str = "",
        normalise: Normalise = _as_it_is,
        **kwargs: Any,
    ) -> None:
        self.source, self.tenant_field, self.purpose = source, tenant_field, purpose
        self.normalise = normalise
        kwargs.update(max_length=64, editable=False)
        kwargs.setdefault("null", True)
        kwargs.setdefault("db_index", not kwargs.get("unique"))
        self._is_indexed = bool(kwargs["db_index"])
        super().__init__(**kwargs)

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        for option in ("max_length", "editable"):
            kwargs.pop(option, None)
        kwargs.update(null=self.null, db_index=self._is_indexed, source=self.source)
        for option in ("tenant_field", "purpose"):
            if value := getattr(self, option):
                kwargs[option] = value
        if self.normalise is not _as_it_is:
            kwargs["normalise"] = self.normalise
        return name, "jobs.fields.BlindIndexField", args, kwargs

    def digest(self, value: str, tenant: Any = "") -> str:
        """The index of the value for rows of this tenant."""
        purpose = self.purpose or f"{self.model._meta.db_table}.{self.source}"
        owner = canonical(self.model, self.tenant_field, tenant) if self.tenant_field else ""
        return blind_index(self.normalise(value), purpose, owner)

    def pre_save(self, model_instance: Any, add: bool) -> Any:
        value = getattr(model_instance, self.source)
        digest = None
        if value is not None:
            digest = self.digest(value, self._tenant(model_instance))
        setattr(model_instance, self.attname, digest)
        return digest

    def _tenant(self, instance: Any) -> Any:
        if not self.tenant_field:
            return ""
        return getattr(instance, tenant_column(self.model, self.tenant_field).attname)

    def get_prep_value(self, value: Any) -> Any:
        if value is not None and not (isinstance(value, str) and _DIGEST.match(value)):
            raise FieldError(f"{self}: takes an index, as index_of() makes it, not the value")
        return value

    def check(self, **kwargs: Any) -> list[Any]:
        found = super().check(**kwargs)
        for option in ("source", "tenant_field"):
            name = getattr(self, option)
            try:
                if name or option == "source":
                    self.model._meta.get_field(name)
            except FieldDoesNotExist:
                found.append(
                    checks.Error(
                        f"{option} is {name!r}, which the model lacks",
                        obj=self,
                        id="jobs.fields.E004",
                    )
                )
        return found


def index_of(model: type[models.Model], name: str, value: str, tenant: Any = "") -> str:
    """What the blind index ``name`` of a row with this value and tenant holds."""
    field = model._meta.get_field(name)
    if not isinstance(field, BlindIndexField):
        raise FieldError(f"{model.__name__}.{name} is no BlindIndexField")
    if field.tenant_field and tenant == "":
        raise FieldError(f"{field}: say the tenant whose rows are searched")
    return field.digest(value, tenant)
