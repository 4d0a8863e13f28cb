"""What every page of the jobs admin stands on: the theme's ModelAdmin, the frame, live fragments.

This is the one place that knows of django-unfold, and it does not depend on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.apps import apps
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.forms import Media
from django.forms.widgets import Script
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotModified,
)
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.module_loading import import_string

from jobs.admin.access import principal
from jobs.admin.actions import Act, Button, confirm

UNFOLD = apps.is_installed("unfold")
"""Whether the host's admin wears django-unfold."""

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:  # at run time Django's class takes no parameters
    ModelAdmin = import_string("unfold.admin.ModelAdmin") if UNFOLD else admin.ModelAdmin

STYLES = ["jobs/base.css", *(["jobs/theme-unfold.css"] if UNFOLD else [])]
_SCRIPTS: list[Any] = [Script("jobs/live.js", defer=True)]
MEDIA = Media(css={"all": STYLES}, js=_SCRIPTS)


class PlatformAdmin(ModelAdmin):
    """A list and a page that show what there is; whatever is done goes through ``acts``.

    A subclass names its templates and builds their data in ``list_data`` and ``page_data``.
    Nothing is added, changed or deleted by forms of the admin.
    """

    view_permission = ""
    """Permission to see, named without its app; the model's own by default."""
    whole_platform = False
    """Whether its numbers are those of all tenants, so that who sees a part does not see it."""
    list_template = ""
    page_template = ""
    acts: Sequence[Act] = ()
    list_acts: Sequence[Act] = ()
    """What is done without any object: to make one."""
    actions = None

    @property
    def media(self) -> Media:
        return MEDIA

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        who = principal(request)
        if self.whole_platform and who.scope.tenants is not None:
            return False
        return who.may(self.view_permission or f"view_{self.opts.model_name}")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    # ---- data, by subclasses

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        """What the list's template shows."""
        raise NotImplementedError

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """What the template of one row shows."""
        raise NotImplementedError

    def find(self, request: HttpRequest, key: str) -> Any:
        """The row within the sight of whoever asks, or None."""
        raise NotImplementedError

    # ---- views

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self._check_view(request)
        data = {"title": str(self.opts.verbose_name_plural).capitalize(), **self.list_data(request)}
        return self.respond(request, self.list_template, {**data, **(extra_context or {})})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.found(request, object_id)
        data = {"title": str(row), "jd_crumbs": self.crumbs(), **self.page_data(request, row)}
        return self.respond(request, self.page_template, {**data, **(extra_context or {})})

    def found(self, request: HttpRequest, key: str) -> Any:
        """The row; 403 without the permission to see, 404 where there is none in sight."""
        self._check_view(request)
        row = self.find(request, key)
        if row is None:
            raise Http404
        return row

    def _check_view(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def respond(self, request: HttpRequest, template: str, data: dict[str, Any]) -> HttpResponse:
        """The whole page, or the one region of it that a live page asks for."""
        site = self.admin_site
        if region := request.GET.get("_fragment"):
            templates: dict[str, str] = data.get("jd_regions", {})
            if region not in templates:
                raise Http404
            return fragment(request, templates[region], {**data, "jd_site": site.name})
        context = {
            **site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "jd_site": site.name,
            "jd_now": timezone.now(),
            "is_fullwidth": True,
            "jd_crumbs": self.crumbs()[:1],
            **data,
        }
        request.current_app = site.name
        return TemplateResponse(request, template, context)

    def crumbs(self) -> list[tuple[str, str]]:
        """The way to a row of this list."""
        name = self.admin_site.name
        return [
            (reverse(f"{name}:app_list", args=["jobs"]), str(self.opts.app_config.verbose_name)),
            (self.list_url(), str(self.opts.verbose_name_plural).capitalize()),
        ]

    # ---- addresses and buttons

    def list_url(self) -> str:
        return reverse(f"{self.admin_site.name}:{self._named('changelist')}")

    def page_url(self, key: object) -> str:
        return reverse(f"{self.admin_site.name}:{self._named('change')}", args=[key])

    def act_url(self, act: Act, key: object = None) -> str:
        name = f"{self.admin_site.name}:{self._named('act' if key is not None else 'make')}"
        return reverse(name, args=[act.name] if key is None else [key, act.name])

    def _named(self, what: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{what}"

    def buttons(
        self, request: HttpRequest, row: Any, key: object, names: Sequence[str] = ()
    ) -> list[Button]:
        """What can be done with the row; what cannot says why."""
        back = request.get_full_path().replace("_fragment=", "_was=")
        return [
            Button.of(act, request, row, self.act_url(act, key), back)
            for act in self.acts
            if not names or act.name in names
        ]

    def list_buttons(self, request: HttpRequest) -> list[Button]:
        return [
            Button.of(act, request, None, self.act_url(act), request.get_full_path())
            for act in self.list_acts
        ]

    def get_urls(self) -> list[Any]:
        wrap: Callable[..., Any] = self.admin_site.admin_view
        return [
            path("do/<slug:name>/", wrap(self.make_view), name=self._named("make")),
            path("<path:object_id>/do/<slug:name>/", wrap(self.act_view), name=self._named("act")),
            *super().get_urls(),
        ]

    def act_view(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        act = _named(self.acts, name)
        row = self.found(request, object_id)
        crumbs = [*self.crumbs(), (self.page_url(object_id), str(row))]
        return confirm(self, request, act, row, {"jd_crumbs": crumbs})

    def make_view(self, request: HttpRequest, name: str) -> HttpResponse:
        act = _named(self.list_acts, name)
        self._check_view(request)
        return confirm(self, request, act, None, {"jd_crumbs": self.crumbs()})


def _named(acts: Sequence[Act], name: str) -> Act:
    for act in acts:
        if act.name == name:
            return act
    raise Http404


def fragment(request: HttpRequest, template: str, data: dict[str, Any]) -> HttpResponse:
    """A region of a page; 304 where the asker has it already."""
    html = render_to_string(template, data, request)
    etag = f'"{hashlib.sha256(html.encode()).hexdigest()[:32]}"'
    if request.headers.get("If-None-Match") == etag:
        answer: HttpResponse = HttpResponseNotModified()
    else:
        answer = HttpResponse(html)
    answer["ETag"] = etag
    answer["Cache-Control"] = "private, no-cache"
    return answer


def as_uuid(text: str) -> UUID | None:
    """The id, or None where it is none."""
    try:
        return UUID(text)
    except ValueError:
        return None
