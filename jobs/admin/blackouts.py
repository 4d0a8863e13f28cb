"""Blackout windows: a week at a glance, whom each holds back, making and ending them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.formats import localize
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobs.admin.access import principal
from jobs.admin.actions import Act, LookedAt, site_of
from jobs.admin.base import PlatformAdmin
from jobs.admin.components import Capped
from jobs.admin.copying import api, cli
from jobs.admin.fields import SCOPE, Words
from jobs.models import Blackout
from jobs.operate import blackouts, sight

DAYS = (gettext_lazy("Mon"), gettext_lazy("Tue"), gettext_lazy("Wed"), gettext_lazy("Thu"),
        gettext_lazy("Fri"), gettext_lazy("Sat"), gettext_lazy("Sun"))  # fmt: skip


class WindowForm(LookedAt):
    """When nothing of a scope starts; what that holds back is looked at first."""

    words = {
        "scope": SCOPE,
        "start": Words(gettext_lazy("From")),
        "end": Words(
            gettext_lazy("To"), gettext_lazy("At or before the start, it lies on the next day.")
        ),
        "days": Words(
            gettext_lazy("Days on which it starts"), gettext_lazy("None means every day."),
            choices=dict(enumerate(DAYS)),
            widget=forms.CheckboxSelectMultiple(attrs={"class": "jd-days"}),
        ),
        "time_zone": Words(gettext_lazy("Time zone")),
    }  # fmt: skip

    def look(self, given: dict[str, Any]) -> list[Any]:
        return list(ahead_lines(blackouts.ahead(
            given["scope"], given["start"], given["end"], days=given["days"],
            time_zone=given["time_zone"],
        )))  # fmt: skip


class ChangeForm(WindowForm):
    """The same for a window that there is."""

    of_row = True


def ahead_lines(found: blackouts.Ahead) -> Iterator[str]:
    """What a window holds back in the next seven days, in words."""
    waiting = Capped(found.waiting.held, found.waiting.more)
    yield _("Waiting jobs that fall due within it in the next seven days: %(n)s") % {"n": waiting}
    for name, number in sorted(found.slots.items())[:10]:
        yield ngettext(
            "Schedule %(name)s has %(n)s slot within it.",
            "Schedule %(name)s has %(n)s slots within it.",
            number,
        ) % {"name": name, "n": localize(number)}


def _enable(enabled: bool) -> Any:
    def run(request: HttpRequest, row: Blackout, given: dict[str, Any]) -> str:
        blackouts.enable(row.pk, enabled, by=principal(request), reason=given["reason"])
        return _("The window is in force.") if enabled else _("The window has no effect now.")

    return run


def _gone(request: HttpRequest, row: Blackout, found: None) -> tuple[str, str]:
    url = reverse(f"{site_of(request)}:jobs_blackout_changelist")
    return _("The window is gone."), url


@admin.register(Blackout)
class BlackoutAdmin(PlatformAdmin):
    """When nothing of a scope starts."""

    list_template = page_template = "jobs/admin/blackouts.html"
    nouns = ("blackout",)
    list_acts = (
        Act("new", gettext_lazy("New window…"), form=WindowForm,
            done=gettext_lazy("The window is in force."), tone="primary",
            verb="blackout.create", submit=gettext_lazy("Create"),
            consequences=lambda r, b: [_("Nothing of the scope starts in it; running jobs run on."),
                                       _("What waits starts at its end.")]),
    )  # fmt: skip
    acts = (
        Act("edit", gettext_lazy("Edit…"), form=ChangeForm,
            done=gettext_lazy("The window is changed."),
            consequences=lambda r, b: [_("Its reason is replaced by yours.")],
            verb="blackout.update", submit=gettext_lazy("Save")),
        Act("enable", gettext_lazy("Enable…"), _enable(True),
            lambda r, b: _("It is in force.") if b.enabled else "",
            verb="blackout.update", many=True),
        Act("disable", gettext_lazy("Disable…"), _enable(False),
            lambda r, b: "" if b.enabled else _("It has no effect now."),
            verb="blackout.update", many=True),
        Act("delete", gettext_lazy("Delete…"), show=_gone,
            consequences=lambda r, b: [_("What it holds back may start.")], tone="danger",
            verb="blackout.delete", many=True),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        return self._data(request, self._weeks(request))

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        shown = self._data(request, [w for w in self._weeks(request) if w[0].pk == row.pk])
        return {**shown, "ahead": list(ahead_lines(blackouts.impact_of(row.pk)))}

    def find(self, request: HttpRequest, key: str) -> Any:
        return next((w for w, _p in self._weeks(request) if str(w.pk) == key), None)

    def _weeks(self, request: HttpRequest) -> list[tuple[Blackout, blackouts.Preview]]:
        who = principal(request)
        return [
            (row, preview)
            for row, preview in blackouts.week()
            if sight.is_visible(who, "scope", row.scope)
        ]

    def _data(self, request: HttpRequest, weeks: Any) -> dict[str, Any]:
        rows = [
            {"w": row, "url": self.page_url(row.pk), "days": _days(row), "week": week_view(row, p),
             "active": p.active_until, "held": Capped(p.impact.held, p.impact.more),
             "state": "disabled" if not row.enabled else "blackout" if p.active_until else "active",
             "buttons": self.buttons(request, row, row.pk)}
            for row, p in weeks
        ]  # fmt: skip
        return {
            "title": _("Blackout windows"),
            "rows": rows,
            "list_buttons": self.list_buttons(request),
            "api": api("blackout_list"),
            "cli": cli("blackouts", "list"),
        }


def _days(row: Blackout) -> str:
    return ", ".join(str(DAYS[day]) for day in sorted(row.days)) or _("every day")


_HOURS = SafeString(
    '<svg class="jd-hours" width="100%" height="12" aria-hidden="true">'
    '<text class="jd-axis" x="0" y="10">00</text>'
    '<text class="jd-axis" x="25%" y="10" text-anchor="middle">06</text>'
    '<text class="jd-axis" x="50%" y="10" text-anchor="middle">12</text>'
    '<text class="jd-axis" x="75%" y="10" text-anchor="middle">18</text>'
    '<text class="jd-axis" x="100%" y="10" text-anchor="end">24</text></svg>'
)


def week_view(row: Blackout, preview: blackouts.Preview) -> SafeString:
    """Seven bars, one per day of the window's own zone."""
    zone = ZoneInfo(row.time_zone)
    monday = preview.begin.astimezone(zone).date()
    lines = []
    for n in range(7):
        begin = datetime.combine(monday + timedelta(days=n), datetime.min.time(), zone)
        end = datetime.combine(monday + timedelta(days=n + 1), datetime.min.time(), zone)
        whole = end.timestamp() - begin.timestamp()
        inside = [
            (max(a.timestamp(), begin.timestamp()), min(b.timestamp(), end.timestamp()))
            for a, b in preview.spans
            if a < end and b > begin
        ]
        bars = format_html_join("", '<rect x="{}%" width="{}%" height="12" class="jd-fill-violet"/>', (  # noqa: E501
            (f"{100 * (a - begin.timestamp()) / whole:.2f}", f"{100 * (b - a) / whole:.2f}")
            for a, b in inside))  # fmt: skip
        words = "; ".join(
            f"{datetime.fromtimestamp(a, zone):%H:%M}–{datetime.fromtimestamp(b, zone):%H:%M}"  # noqa: RUF001
            for a, b in inside
        )
        lines.append((DAYS[n], f"{DAYS[n]}: {words or _('open')}", bars))
    return format_html(
        '<div class="jd-week"><span></span>{}{}</div>',
        _HOURS,
        format_html_join(
            "",
            '<span>{}</span><svg class="jd-meter" width="100%" height="12" role="img" '
            'aria-label="{}"><rect width="100%" height="12" class="jd-fill-track"/>{}</svg>',
            lines,
        ),
    )
