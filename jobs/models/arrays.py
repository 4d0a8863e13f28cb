"""Columns that are arrays, for which a host has to install nothing."""

from typing import TYPE_CHECKING, Any

from django.contrib.postgres import fields

if TYPE_CHECKING:  # which knows what is in the arrays of this name only
    ArrayField = fields.ArrayField
else:

    class ArrayField(fields.ArrayField):
        """Django's own, also without ``django.contrib.postgres`` among the installed apps.

        Newer Djangos ask for that app, whose templates and lookups of words and ranges no array
        needs. In migrations it is Django's own field.
        """

        def _check_postgres_installed(self, *args: Any) -> list[Any]:
            return []

        def deconstruct(self) -> tuple[str, str, list[Any], dict[str, Any]]:
            name, _path, args, given = super().deconstruct()
            return name, "django.contrib.postgres.fields.ArrayField", args, given
