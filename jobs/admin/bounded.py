"""Lists over tables of any size: nothing here counts or sorts a whole table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.forms import Media
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy

from jobs.admin.base import MEDIA, ModelAdmin

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise as StrOrPromise

    AnyPaginator = Paginator[Any]
else:  # at run time Django's class takes no parameters
    AnyPaginator = Paginator

PAGE = 50
LAST_PAGE = 100
"""So many pages can be turned; what lies behind is found by filters or by its id."""


class Pages(AnyPaginator):
    """Knows whether there is another page, and not how many there are."""

    def __init__(self, rows: Any, per_page: int, page: int) -> None:
        super().__init__(rows, per_page)
        self._rows = rows
        self._page = min(max(page, 1), LAST_PAGE)

    @cached_property
    def count(self) -> int:
        first = (self._page - 1) * self.per_page
        # One row more than the page holds says that another page follows.
        seen = len(self._rows.values_list("pk")[first : first + self.per_page + 1])
        if self._page == LAST_PAGE:
            seen = min(seen, self.per_page)
        return first + seen


class AtLeast(int):
    """A number that says of itself that there is more."""

    def __str__(self) -> str:
        return f"{int(self)}+"


class BoundedChangeList(ChangeList):
    """Says "50+" where it does not know better."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if self.result_count > self.page_num * self.list_per_page:
            self.result_count = AtLeast(self.page_num * self.list_per_page)


class ReadOnlyAdmin(ModelAdmin):
    """Shows rows to whoever may view them; adds, changes and deletes nothing."""

    actions = None
    list_per_page = PAGE
    list_max_show_all = 0
    show_full_result_count = False
    sortable_by = ()
    search_help_text: ClassVar[StrOrPromise] = gettext_lazy("an id")

    @property
    def media(self) -> Media:
        return super().media + MEDIA

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_changelist(self, request: HttpRequest, **_: Any) -> type[ChangeList]:
        return BoundedChangeList

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *_: Any, **__: Any
    ) -> Pages:
        page = request.GET.get("p", "")
        return Pages(queryset, per_page, int(page) if page.isascii() and page.isdigit() else 1)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        try:
            wanted = UUID(search_term.strip())
        except ValueError:
            return queryset.none(), False
        return queryset.filter(**{self.search_fields[0]: wanted}), False
