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
from jobs.admin.actions import Act, LookedAt, Reason, When, offer
from jobs.admin.components import moment, pretty
from jobs.admin.jobforms import JsonText
from jobs.errors import InvalidOption
from jobs.models import Schedule
from jobs.operate import schedules
from jobs.operate.shown import public_data

MISSED = {"skip": gettext_lazy("they are left out"),
          "latest": gettext_lazy("the latest is made up for"),
          "all": gettext_lazy("every one is made up for")}  # fmt: skip
OVERLAP = {"allow": gettext_lazy("runs may overlap"),
           "skip": gettext_lazy("a slot is left out while an earlier run is unfinished")}  # fmt: skip  # noqa: E501
SHOWN = 12


class RuleForm(Reason):
    """When it comes, and what its jobs carry."""

    payload = JsonText(label=gettext_lazy("Payload, as JSON"), required=False)
    cron = forms.CharField(
        label=gettext_lazy("Cron"), required=False, max_length=200,
        help_text=gettext_lazy("Minute, hour, day, month, weekday, like 30 2 * * *; or an interval."),  # noqa: E501
    )  # fmt: skip
    interval = forms.FloatField(
        label=gettext_lazy("Interval in seconds"), required=False, min_value=1
    )
    time_zone = forms.CharField(
        label=gettext_lazy("Time zone"), required=False, max_length=60,
        help_text=gettext_lazy("Of the cron rule, like Europe/Rome."),
    )  # fmt: skip
    missed = forms.ChoiceField(
        label=gettext_lazy("Missed slots"), choices=list(MISSED.items()), initial="latest"
    )
    overlap = forms.ChoiceField(label=gettext_lazy("Overlap"), choices=list(OVERLAP.items()))

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        names = ("cron", "interval", "time_zone", "missed", "overlap")
        given["rule"] = {name: given.get(name) or None for name in names}
        return given


class NewForm(RuleForm):
    """A schedule that is not there yet."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    kind = forms.ChoiceField(label=gettext_lazy("Kind"))
    queue = forms.CharField(label=gettext_lazy("Queue"), required=False, max_length=100)
    tenant = forms.CharField(label=gettext_lazy("Tenant"), required=False, max_length=200)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "kind").choices = [(h.kind, h.kind) for h in registry.handlers()]
        self.order_fields(["name", "kind"])


class ChangeForm(RuleForm):
    """Another rule, or another payload."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("cron", "interval", "time_zone", "missed", "overlap"):
            self.fields[name].initial = getattr(self.row, name)
        self.fields["payload"].help_text = _(
            "Empty leaves it as it is; hidden fields have to be given again."
        )
        payload = self.row.payload
        if principal(self.request).may("view_payload") and public_data(payload) == payload:
            self.fields["payload"].initial = pretty(payload)


class BackfillForm(LookedAt):
    """From when to when."""

    start = When(label=gettext_lazy("From"), required=True)
    end = When(label=gettext_lazy("To"), required=True)

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


def _create(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    options = {name: given[name] for name in ("queue", "tenant") if given[name]}
    payload = {} if given["payload"] is None else given["payload"]
    schedules.create(
        given["name"], _payload(given["kind"], payload), by=principal(request),
        reason=given["reason"], **given["rule"], **options,
    )  # fmt: skip
    return _("The schedule makes its jobs from now on.")


def _edit(request: HttpRequest, row: Schedule, given: dict[str, Any]) -> str:
    payload = None if given["payload"] is None else _payload(row.kind, given["payload"])
    schedules.edit(
        row.name, by=principal(request), reason=given["reason"], payload=payload, **given["rule"]
    )
    return _("It holds from the next slot on.")


def _backfill(request: HttpRequest, row: Schedule, given: dict[str, Any]) -> str:
    made = schedules.backfill(
        row.name, given["start"], given["end"], by=principal(request), reason=given["reason"]
    )
    words = ngettext("%(n)s job was made.", "%(n)s jobs were made.", len(made))
    return words % {"n": localize(len(made))}


def _in_code(request: HttpRequest, row: Schedule) -> str:
    return _("It is declared in code; change it there.") if row.is_declared else ""


NEW = Act("new", gettext_lazy("New schedule…"), "manage_schedule", _create, form=NewForm,
          tone="primary", verb="schedule.create", submit=gettext_lazy("Create"))  # fmt: skip
EDIT = Act("edit", gettext_lazy("Edit…"), "manage_schedule", _edit, _in_code,
           lambda r, s: [_("It holds from the next slot on; jobs that it has made stay.")],
           ChangeForm, verb="schedule.edit", submit=gettext_lazy("Save"))  # fmt: skip
BACKFILL = Act("backfill", gettext_lazy("Make up for missed slots…"), "manage_schedule", _backfill,
               consequences=lambda r, s: [_("Each slot of the past without a job gets one."),
                                          _("They may run side by side.")],
               form=BackfillForm, verb="schedule.backfill")  # fmt: skip
