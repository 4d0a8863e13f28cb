"""Acts below a page's address, for every sort of admin page."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from jobs.admin import many
from jobs.admin.actions import Act, Button, confirm
from jobs.admin.declared import offered

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

    Base = ModelAdmin[Any]
else:
    Base = object


View = Callable[..., HttpResponseBase]


def explained(page: Any, view: View) -> View:
    """What is denied or not there is said on a page of the admin, with its way back."""

    @functools.wraps(view)
    def run(request: HttpRequest, *args: Any, **given: Any) -> HttpResponseBase:
        try:
            return view(request, *args, **given)
        except PermissionDenied:
            status = 403
        except Http404:
            status = 404
        data = {
            **page.admin_site.each_context(request),
            "opts": page.opts,
            "media": page.media,
            "jd_site": page.admin_site.name,
            "is_fullwidth": True,
            "jd_crumbs": page.crumbs()[:1],
            "title": _("Not allowed") if status == 403 else _("Not here"),
            "home": reverse(f"{page.admin_site.name}:index"),
            "is_denied": status == 403,
            "list": page.crumbs()[1] if status == 404 else None,
        }
        return TemplateResponse(request, "jobs/admin/nothing.html", data, status=status)

    return run


class Acting(Base):
    """A page with ``acts`` on its rows, and ``list_acts`` that need no row."""

    acts: Sequence[Act] = ()
    list_acts: Sequence[Act] = ()
    """What is done without any object: to make one."""
    nouns: Sequence[str] = ()
    """Verbs of these nouns that no act does get one made of their declaration alone."""

    def row_acts(self) -> list[Act]:
        """Return what can be done with a row, as far as its verbs are declared."""
        return offered(self.acts, self.nouns, new=False)

    def new_acts(self) -> list[Act]:
        """Return what can be done without a row."""
        return offered(self.list_acts, self.nouns, new=True)

    def found(self, request: HttpRequest, key: str) -> Any:
        """The row; 403 without the permission to see, 404 where there is none in sight."""
        self.check_view(request)
        row = self.find(request, key)
        if row is None:
            raise Http404
        return row

    def find(self, request: HttpRequest, key: str) -> Any:
        """The row that the caller may see, or None; of a list without rows, None."""
        return None

    def check_view(self, request: HttpRequest) -> None:
        """Raises where the page is not for the caller."""
        if not self.has_view_permission(request):
            raise PermissionDenied

    def crumbs(self) -> list[tuple[str, str]]:
        """The way to a row of this list."""
        name = self.admin_site.name
        return [
            (
                reverse(f"{name}:app_list", args=[self.opts.app_label]),
                str(self.opts.app_config.verbose_name),
            ),
            (self.list_url(), capfirst(str(self.opts.verbose_name_plural))),
        ]

    # ---- addresses and buttons

    def list_url(self) -> str:
        return reverse(f"{self.admin_site.name}:{self.view_name('changelist')}")

    def page_url(self, key: object) -> str:
        return reverse(f"{self.admin_site.name}:{self.view_name('change')}", args=[key])

    def act_url(self, act: Act, key: object = None) -> str:
        name = f"{self.admin_site.name}:{self.view_name('act' if key is not None else 'make')}"
        return reverse(name, args=[act.name] if key is None else [key, act.name])

    def view_name(self, what: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{what}"

    def buttons(
        self, request: HttpRequest, row: Any, key: object, names: Sequence[str] = ()
    ) -> list[Button]:
        """What can be done with the row; what cannot says why."""
        back = _address(request)
        return [
            Button.of(act, request, row, self.act_url(act, key), back)
            for act in self.row_acts()
            if not names or act.name in names
        ]

    def list_buttons(self, request: HttpRequest) -> list[Button]:
        return [
            Button.of(act, request, None, self.act_url(act), _address(request))
            for act in self.new_acts()
        ]

    def many(self, request: HttpRequest) -> dict[str, Any]:
        """What the list shows for the rows that are selected."""
        name = f"{self.admin_site.name}:{self.view_name('many')}"
        return {
            "buttons": many.buttons(self, request), "url": reverse(name), "back": _address(request),
        }  # fmt: skip

    # ---- views

    def get_urls(self) -> list[Any]:
        wrap: Callable[..., Any] = self.admin_site.admin_view

        def shown(view: View) -> View:
            found: View = wrap(explained(self, view))
            return found

        return [
            path("many/", shown(self.many_view), name=self.view_name("many")),
            path("do/<slug:name>/", shown(self.make_view), name=self.view_name("make")),
            path("<path:object_id>/do/<slug:name>/", shown(self.act_view),
                 name=self.view_name("act")),
            *super().get_urls(),
        ]  # fmt: skip

    def act_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponseBase:
        act = named(self.row_acts(), name)
        row = self.found(request, object_id)
        crumbs = [*self.crumbs(), (self.page_url(object_id), str(row))]
        return confirm(self, request, act, row, {"jd_crumbs": crumbs})

    def many_view(self, request: HttpRequest) -> HttpResponseBase:
        self.check_view(request)
        acts = [act for act in self.row_acts() if act.many]
        act = many.act_of(named(acts, request.GET.get("action", "")), many.selected(self, request))
        return confirm(self, request, act, None, {"jd_crumbs": self.crumbs()})

    def make_view(self, request: HttpRequest, name: str) -> HttpResponseBase:
        act = named(self.new_acts(), name)
        self.check_view(request)
        return confirm(self, request, act, None, {"jd_crumbs": self.crumbs()})


def _address(request: HttpRequest) -> str:
    """The page as a person would come back to it, whatever part of it is asked for."""
    given = request.GET.copy()
    for name in ("_fragment", "_look", "_stream"):
        given.pop(name, None)
    return f"{request.path}?{given.urlencode()}" if given else request.path


def named(acts: Sequence[Act], name: str) -> Act:
    """The act of this name; 404 where there is none."""
    for act in acts:
        if act.name == name:
            return act
    raise Http404
