"""What every page of the jobs admin stands on: the theme's ModelAdmin, the frame, live fragments.

This is the one place that knows of django-unfold, and it does not depend on it.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, cast
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
    JsonResponse,
)
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.text import capfirst
from django.utils.translation import get_language

from jobs.admin import live
from jobs.admin.access import principal
from jobs.admin.acting import Acting, explained

UNFOLD = apps.is_installed("unfold")
"""Whether the host's admin wears django-unfold."""

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:  # at run time Django's class takes no parameters
    ModelAdmin = import_string("unfold.admin.ModelAdmin") if UNFOLD else admin.ModelAdmin

STYLES = ["jobs/base.css", *(["jobs/theme-unfold.css"] if UNFOLD else [])]
_SCRIPTS: list[Any] = [Script("jobs/live.js", defer=True)]
MEDIA = Media(css={"all": STYLES}, js=_SCRIPTS)


class PlatformAdmin(Acting, ModelAdmin):
    """A list and a page that show what there is; whatever is done goes through ``acts``.

    A subclass names its templates and builds their data in ``list_data`` and ``page_data``.
    Nothing is added, changed or deleted by forms of the admin.
    """

    view_permission = ""
    """Permission to see, named without its app; the model's own by default."""
    whole_platform = False
    """Whether its numbers are those of all tenants, so that who sees a part does not see it."""
    follows_row = False
    """Whether the page of a row changes with it, and otherwise only a little with the time: then
    clients that poll learn cheaply, for a few seconds, that nothing has changed."""
    list_template = ""
    page_template = ""
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

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """Return the row for the stock pages, which would otherwise find it out of scope, too."""
        return self.find(request, object_id)

    # ---- data, which subclasses add

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        """What the list's template shows inside the frame."""
        return {}

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """What the template of one row shows inside the frame, beside the row."""
        return {}

    # ---- views

    def get_urls(self) -> list[Any]:
        for url in (found := super().get_urls()):
            if str(url.name).endswith(("_changelist", "_change")):
                url.callback = explained(self, url.callback)
        return found

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self.check_view(request)
        data = {
            "title": capfirst(str(self.opts.verbose_name_plural)),
            "jd_many": self.many(request),
            **self.list_data(request),
        }
        return self.respond(request, self.list_template, {**data, **(extra_context or {})})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.found(request, object_id)
        if request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        mark = ""
        if self.follows_row and "_fragment" in request.GET:
            mark = mark_of(request, row)
            if mark == known(request)[1]:
                return not_modified(request.headers["If-None-Match"])
        data = {"title": str(row), "jd_crumbs": self.crumbs(), **self.page_data(request, row)}
        data["jd_mark"] = mark
        return self.respond(request, self.page_template, {**data, **(extra_context or {})})

    def respond(self, request: HttpRequest, template: str, data: dict[str, Any]) -> HttpResponse:
        """The whole page, the one region of it that a live page asks for, or its stream."""
        site = self.admin_site
        if region := request.GET.get("_fragment"):
            templates: dict[str, str] = data.get("jd_regions", {})
            if region not in templates:
                raise Http404
            given = {**data, "jd_site": site.name}
            return fragment(request, templates[region], given, data.get("jd_mark", ""))
        if live.STREAM in request.GET:
            return cast("HttpResponse", live.stream(request))
        if live.LOOK in request.GET:
            return marks(request, {**data, "jd_site": site.name})
        context = {
            **site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "jd_site": site.name,
            "jd_now": timezone.now(),
            "jd_stream": live.can_stream(request),
            "is_fullwidth": True,
            "jd_crumbs": self.crumbs()[:1],
            **data,
        }
        request.current_app = site.name
        return TemplateResponse(request, template, context)


def fragment(
    request: HttpRequest, template: str, data: dict[str, Any], mark: str = ""
) -> HttpResponse:
    """A region of a page; 304 where the asker has it already."""
    html = render_to_string(template, data, request)
    digest = _digest(html)
    etag = f'"{digest}.{mark}"' if mark else f'"{digest}"'
    if digest == known(request)[0]:
        return not_modified(etag)
    answer = HttpResponse(html)
    answer["ETag"] = etag
    answer["Cache-Control"] = "private, no-cache"
    return answer


def not_modified(etag: str) -> HttpResponse:
    """What the asker has is still right."""
    answer = HttpResponseNotModified()
    answer["ETag"] = etag
    answer["Cache-Control"] = "private, no-cache"
    return answer


def known(request: HttpRequest) -> tuple[str, str]:
    """What the asker has: the digest of its content, and the mark that it was made with."""
    etag = request.headers.get("If-None-Match", "").removeprefix("W/").strip('"')
    digest, _, mark = etag.partition(".")
    return digest, mark


FRESH = 5.0
"""Seconds after which a page that follows its row is made again, whatever the row says."""


def mark_of(request: HttpRequest, row: Model) -> str:
    """The same as long as the row, the reader and his language are, for a few seconds."""
    columns = [(field.attname, vars(row).get(field.attname)) for field in row._meta.concrete_fields]
    reader = (request.user.pk, get_language(), request.GET.urlencode())
    turn = int(time.time() / FRESH)  # decides nothing but how fresh a picture is
    return hashlib.sha256(repr((columns, reader, turn)).encode()).hexdigest()[:16]


def marks(request: HttpRequest, data: dict[str, Any]) -> HttpResponse:
    """What changes whenever a region of the page does."""
    regions: dict[str, str] = data.get("jd_regions", {})
    return JsonResponse({
        name: _digest(render_to_string(template, data, request))
        for name, template in regions.items()
    })  # fmt: skip


def _digest(html: str) -> str:
    return hashlib.sha256(html.encode()).hexdigest()[:32]


def as_uuid(text: str) -> UUID | None:
    """The id, or None where it is none."""
    try:
        return UUID(text)
    except ValueError:
        return None
