"""Filters whose values are known without a query: no list looks for distinct values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest


class Known(admin.SimpleListFilter):
    """A filter whose values come from code, and so cost no query."""

    def values(self) -> Iterable[str]:
        """What may be asked for; a filter without values is not shown."""
        return ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, value) for value in sorted(set(self.values()))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(**{str(self.parameter_name): value}) if value else queryset
