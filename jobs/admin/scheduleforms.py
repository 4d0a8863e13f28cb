"""Making, changing and making up for schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.formats import localize
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobs import registry
from jobs.admin.access import principal
from jobs.admin.actions import Act, LookedAt, Reason, offer
from jobs.admin.components import moment
from jobs.admin.fields import JsonText, Words
from jobs.errors import InvalidOption
from jobs.models import Schedule
from jobs.operate import schedules
from jobs.operate.permissions import VIEW_PAYLOAD
from jobs.operate.shown import public_data

MISSED = {"skip": gettext_lazy("they are left out"),
          "latest": gettext_lazy("the latest is made up for"),
          "all": gettext_lazy("every one is made up for")}  # fmt: skip
OVERLAP = {"allow": gettext_lazy("runs may overlap"),
           "skip": gettext_lazy("a slot is left out while an earlier run is unfinished")}  # fmt: skip  # noqa: E501
SHOWN = 12


class RuleForm(Reason):
    """When it comes, and what its jobs carry."""

    words = {
        "name": Words(gettext_lazy("Name"), shown=lambda form: form.row is None),
        "cron": Words(
            gettext_lazy("Cron"),
            gettext_lazy("Minute, hour, day, month, weekday, like 30 2 * * *; or an interval."),
        ),
        "interval": Words(gettext_lazy("Interval in seconds")),
        "time_zone": Words(
            gettext_lazy("Time zone"), gettext_lazy("Of the cron rule, like Europe/Rome."),
            initial=lambda form: form.row.time_zone if form.row and form.row.cron else None,
        ),
        "missed": Words(gettext_lazy("Missed slots"), choices=MISSED),
        "overlap": Words(gettext_lazy("Overlap"), choices=OVERLAP),
    }  # fmt: skip
    payload = JsonText(label=gettext_lazy("Payload, as JSON"), required=False)


class NewForm(RuleForm):
    """A schedule that is not there yet."""

    field_order = ("name", "kind", "payload")
    kind = forms.ChoiceField(label=gettext_lazy("Kind"))
    queue = forms.CharField(label=gettext_lazy("Queue"), required=False, max_length=100)
    tenant = forms.CharField(label=gettext_lazy("Tenant"), required=False, max_length=200)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "kind").choices = [
            (h.kind, h.kind) for h in registry.handlers() if not h.internal
        ]


class ChangeForm(RuleForm):
    """Another rule, or another payload."""

    of_row = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["payload"].help_text = _(
            "Empty leaves it as it is; hidden fields have to be given again."
        )
        payload = self.row.payload
        if principal(self.request).may(VIEW_PAYLOAD) and public_data(payload) == payload:
            self.fields["payload"].initial = payload


class BackfillForm(LookedAt):
    """From when to when."""

    words = {"start": Words(gettext_lazy("From")), "end": Words(gettext_lazy("To"))}

    def look(self, given: dict[str, Any]) -> Sequence[Any]:
        slots = schedules.backfill_preview(self.row.name, given["start"], given["end"])
        if not slots:
            raise InvalidOption("end", _("every slot in this time has its job"))
        words = ngettext("%(n)s job will be made.", "%(n)s jobs will be made.", len(slots))
        lines = [words % {"n": localize(len(slots))}, *map(moment, slots[:SHOWN])]
        if len(slots) > SHOWN:
            lines.append(_("… and so on until %(last)s") % {"last": moment(slots[-1])})
        return lines


def _payload(kind: str, content: Any) -> Any:
    if not isinstance(content, dict):
        raise InvalidOption("payload", _("must be a JSON object"))
    return registry.get(kind).payload.build(content)


def _new(request: HttpRequest, row: None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the payload, which is one of its kind, and the options of the jobs."""
    options = {name: given[name] for name in ("queue", "tenant") if given[name]}
    content = {} if given["payload"] is None else given["payload"]
    return {**options, "payload": _payload(given["kind"], content)}


def _changed(request: HttpRequest, row: Schedule, given: dict[str, Any]) -> dict[str, Any]:
    content = given["payload"]
    return {} if content is None else {"payload": _payload(row.kind, content)}


def _made(request: HttpRequest, row: Schedule, jobs: Sequence[Any]) -> str:
    words = ngettext("%(n)s job was made.", "%(n)s jobs were made.", len(jobs))
    return words % {"n": localize(len(jobs))}


def _in_code(request: HttpRequest, row: Schedule) -> str:
    if row.is_declared:
        return _("It is declared in code; change it there.")
    return _("Its kind is internal.") if registry.is_internal(row.kind) else ""


NEW = Act("new", gettext_lazy("New schedule…"), form=NewForm, given=_new,
          done=gettext_lazy("The schedule makes its jobs from now on."),
          tone="primary", verb="schedule.create", submit=gettext_lazy("Create"))  # fmt: skip
EDIT = Act("edit", gettext_lazy("Edit…"), None, _in_code,
           lambda r, s: [_("It holds from the next slot on; jobs that it has made stay.")],
           ChangeForm, done=gettext_lazy("It holds from the next slot on."), given=_changed,
           target=lambda row: row.name, verb="schedule.edit",
           submit=gettext_lazy("Save"))  # fmt: skip
BACKFILL = Act("backfill", gettext_lazy("Make up for missed slots…"), show=_made,
               target=lambda row: row.name,
               consequences=lambda r, s: [_("Each slot of the past without a job gets one."),
                                          _("They may run side by side.")],
               form=BackfillForm, verb="schedule.backfill")  # fmt: skip
