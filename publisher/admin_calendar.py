"""The calendar in the admin: the week and the month of a brand, where posts move between days."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.forms.widgets import Script
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.formats import date_format
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from jobs.admin import PlatformAdmin, principal
from jobs.errors import Denied, JobsError
from publisher import access, calendar, channels, verbs
from publisher.admin_base import brand_choices
from publisher.models import Brand
from publisher.models.entries import Calendar

_SCRIPTS: list[Any] = [Script("publisher/calendar.js", defer=True)]
_MEDIA = forms.Media(css={"all": ["publisher/calendar.css"]}, js=_SCRIPTS)
VIEWS = {"week": (calendar.week_of, 50), "month": (calendar.month_of, 5)}
"""The days that each view shows, and up to how many entries of a day."""
DRAFTS = 20
"""Up to so many drafts without a slot are beside the calendar."""


@admin.register(Calendar)
class CalendarAdmin(PlatformAdmin):
    """What appears when, by brand."""

    list_template = "publisher/calendar.html"

    @property
    def media(self) -> forms.Media:
        return super().media + _MEDIA

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return principal(request).may(verbs.VIEW_PLAN)

    def get_urls(self) -> list[Any]:
        move = self.admin_site.admin_view(require_POST(self.move))
        return [path("move/", move, name="publisher_calendar_move"), *super().get_urls()]

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        choices = brand_choices(request)
        data = {"title": gettext("Calendar"), "brands": choices, "channels": channels.choices()}
        brand = self._brand(request, choices)
        return data if brand is None else {**data, **self._shown(request, brand)}

    def _brand(self, request: HttpRequest, choices: list[tuple[str, str]]) -> Brand | None:
        """Return the brand that is asked for, or the first one; None if there is none."""
        slug = request.GET.get("brand") or next((one for one, _name in choices), "")
        if not slug:
            return None
        if slug not in dict(choices):
            raise Http404
        return Brand.objects.get(slug=slug)

    def _shown(self, request: HttpRequest, brand: Brand) -> dict[str, Any]:
        who, today = principal(request), calendar.today(brand)
        view = request.GET.get("view", "") if request.GET.get("view") in VIEWS else "week"
        channel = request.GET.get("channel", "")
        channel = channel if channel in channels.names() else ""
        day = calendar.read_day(request.GET.get("on", "")) or today
        span, each = VIEWS[view]
        first, end = span(day)

        def url(on: date, name: str = view) -> str:
            given = {"brand": brand.slug, "view": name, "on": on, "channel": channel}
            return f"{self.list_url()}?{urlencode({n: v for n, v in given.items() if v})}"

        may_move = who.may(verbs.SCHEDULE_PLAN) or who.may(verbs.SCHEDULE)
        days = calendar.days_of(
            brand, first, end, channel=channel, each=each, with_posts=who.may(verbs.VIEW)
        )
        shown = [self._day(request, brand, one, url(one.date, "week")) for one in days]
        words = dict(VIEW_LABELS)
        return {
            "title": gettext("Calendar of %(brand)s") % {"brand": brand.name},
            "brand": brand, "view": view, "channel": channel, "on": day, "today": today,
            "heading": _heading(view, day, first, end), "days": shown, "address": url(day),
            "is_empty": not any(one.entries for one in days),
            "has_accounts": brand.accounts.exists(),
            "can_move": may_move and access.has_role(who, brand.pk, "editor"),
            "views": [(words[name], url(day, name), name == view) for name in VIEWS],
            "before": url(_turned(view, day, first, -1)),
            "after": url(_turned(view, day, first, 1)), "now": url(today),
            "drafts": calendar.drafts_of(brand, DRAFTS), "move_url": self._move_url(brand),
        }  # fmt: skip

    def _move_url(self, brand: Brand) -> str:
        url = reverse(f"{self.admin_site.name}:publisher_calendar_move")
        return f"{url}?{urlencode({'brand': brand.slug})}"

    def _day(self, request: HttpRequest, brand: Brand, day: calendar.Day, url: str) -> Any:
        site, labels = self.admin_site.name, dict(channels.choices())
        new = reverse(f"{site}:publisher_plan_make", args=["create"])

        def plan_at(moment: datetime) -> str:
            return f"{new}?{urlencode({'brand': brand.slug, 'at': f'{moment:%Y-%m-%dT%H:%M}'})}"

        return {
            "date": day.date, "url": url, "more": day.more,
            "closed": [(a, b, _whom(scope, labels)) for a, b, scope in day.closed],
            "free": [(f"{at:%H:%M}", plan_at(at)) for at in day.free]
            if principal(request).may(verbs.ADD_PLAN) else [],
            "entries": [
                {"it": one, "clock": f"{one.at:%H:%M}",
                 "channel": one.account.get_channel_display(),
                 "url": reverse(f"{site}:publisher_{one.what}_change", args=[one.id]),
                 "move": reverse(f"{site}:publisher_{one.what}_act", args=[one.id, "move"])}
                for one in day.entries
            ],
        }  # fmt: skip

    def move(self, request: HttpRequest) -> HttpResponse:
        """Move a post to another day, and show the calendar again."""
        self.check_view(request)
        given, back = request.POST, request.POST.get("back", "")
        if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
            back = self.list_url()
        brand = self._brand(request, brand_choices(request))
        day = calendar.read_day(given.get("day", ""))
        if brand is None:
            raise Http404
        if day is None:
            messages.error(request, gettext("Choose a day."))
            return HttpResponseRedirect(back)
        try:
            pk = UUID(given.get("id", ""))
            pk, slot = calendar.move(brand, given.get("what", ""), pk, day, by=principal(request))
        except (ValueError, ObjectDoesNotExist):
            raise Http404 from None
        except Denied as error:
            raise PermissionDenied from error
        except JobsError as error:
            messages.error(request, str(error))
            return HttpResponseRedirect(back)
        messages.success(
            request, gettext("Moved to %(day)s.") % {"day": date_format(day, "DATE_FORMAT")}
        )
        if slot is not None and slot.note:
            messages.warning(request, str(slot.get_note_display()))
        return HttpResponseRedirect(f"{back}#e-{pk}")


VIEW_LABELS = (("week", _("Week")), ("month", _("Month")))


def _heading(view: str, day: date, first: date, end: date) -> str:
    """Return what the view shows, in words."""
    if view == "month":
        return date_format(day, "YEAR_MONTH_FORMAT")
    last = end - timedelta(days=1)
    return f"{date_format(first, 'DATE_FORMAT')} – {date_format(last, 'DATE_FORMAT')}"  # noqa: RUF001


def _turned(view: str, day: date, first: date, step: int) -> date:
    """Return a day of the view before or after."""
    if view == "week":
        return first + step * timedelta(days=7)
    return day.replace(day=15) + step * timedelta(days=30)


def _whom(scope: str, labels: dict[str, Any]) -> Any:
    """Return whom a window closes, in words."""
    kind = scope.removeprefix("kind:publisher.")
    if kind != scope:
        return labels.get(kind, kind)
    return _("this brand") if scope.startswith("tenant:") else _("all brands")
