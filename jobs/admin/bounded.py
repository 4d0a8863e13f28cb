"""Lists over tables of any size: nothing here counts or sorts a whole table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.forms import Media
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.access import principal
from jobs.admin.acting import Acting
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


class ReadOnlyAdmin(Acting, ModelAdmin):
    """Shows rows to whoever may view them; adds, changes and deletes nothing."""

    actions = None
    list_per_page = PAGE
    list_max_show_all = 0
    show_full_result_count = False
    sortable_by = ()
    whole_platform = False
    """Whether its rows concern all tenants, so that who sees a part of them sees none."""
    search_help_text: ClassVar[StrOrPromise] = gettext_lazy("an id")

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        if self.whole_platform and not principal(request).scope.is_everything:
            return False
        return super().has_view_permission(request, obj)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def find(self, request: HttpRequest, key: str) -> Any:
        return self.get_object(request, unquote(key))

    def acting(self, request: HttpRequest) -> Callable[[Any], str]:
        """The column of what can be done with a row."""

        @admin.display(description=_("actions"))
        def buttons(row: Any) -> str:
            found = self.buttons(request, row, quote(row.pk))
            inner = render_to_string(
                "jobs/admin/parts/buttons.html", {"buttons": found, "small": True}
            )
            return format_html('<div class="jd jd-buttons">{}</div>', mark_safe(inner))  # noqa: S308 - a template

        return buttons

    def get_list_display(self, request: HttpRequest) -> Any:
        shown = super().get_list_display(request)
        return (*shown, self.acting(request)) if self.acts else shown

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        shown = super().get_fields(request, obj)
        return (*shown, self.acting(request)) if self.acts and obj is not None else shown

    @property
    def media(self) -> Media:
        return super().media + MEDIA

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_changelist(self, request: HttpRequest, **given: Any) -> type[ChangeList]:
        return BoundedChangeList

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **given: Any
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
