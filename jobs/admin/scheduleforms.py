"""Making, changing and making up for schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from django.utils.formats import localize
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobs import registry
from jobs.admin.access import principal
from jobs.admin.actions import Act, LookedAt, Reason
from jobs.admin.components import moment
from jobs.admin.fields import Words
from jobs.errors import InvalidOption
from jobs.models import Schedule
from jobs.operate import schedules
from jobs.operate.permissions import VIEW_PAYLOAD
from jobs.operate.shown import public_data

MISSED = {"skip": gettext_lazy("they are left out"),
          "latest": gettext_lazy("the latest is run late"),
          "all": gettext_lazy("all of them are run late")}  # fmt: skip
OVERLAP = {"allow": gettext_lazy("runs may overlap"),
           "skip": gettext_lazy("a slot is left out while an earlier run is unfinished")}  # fmt: skip  # noqa: E501
SHOWN = 12


def _kinds(form: Reason) -> dict[str, str]:
    """Return the kinds whose jobs people may make."""
    return {one.kind: one.kind for one in registry.handlers() if not one.internal}


class RuleForm(Reason):
    """When it comes."""

    words = {
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


class NewForm(RuleForm):
    """A schedule that is not there yet."""

    words = {
        "name": Words(gettext_lazy("Name")),
        "kind": Words(gettext_lazy("Kind"), choices=_kinds),
        "payload": Words(gettext_lazy("Payload, as JSON")),
        **RuleForm.words,
        "queue": Words(gettext_lazy("Queue")),
        "priority": Words(gettext_lazy("Priority")),
        "tenant": Words(gettext_lazy("Tenant")),
    }


def _whole_payload(form: Reason) -> Any:
    """Return the payload, if the caller may see all of it."""
    payload = form.row.payload
    is_whole = principal(form.request).may(VIEW_PAYLOAD) and public_data(payload) == payload
    return payload if is_whole else None


class ChangeForm(RuleForm):
    """Another rule, or another payload."""

    of_row = True
    words = {
        **RuleForm.words,
        "payload": Words(
            gettext_lazy("Payload, as JSON"),
            gettext_lazy("Empty leaves it as it is; hidden fields have to be given again."),
            initial=_whole_payload,
        ),
    }


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


def _made(request: HttpRequest, row: Schedule, jobs: Sequence[Any]) -> str:
    words = ngettext("%(n)s job was made.", "%(n)s jobs were made.", len(jobs))
    return words % {"n": localize(len(jobs))}


def _in_code(request: HttpRequest, row: Schedule) -> str:
    if row.is_declared:
        return _("It is declared in code; change it there.")
    return _("Its kind is internal.") if registry.is_internal(row.kind) else ""


NEW = Act("new", gettext_lazy("New schedule…"), form=NewForm,
          done=gettext_lazy("The schedule makes its jobs from now on."),
          tone="primary", verb="schedule.create", submit=gettext_lazy("Create"))  # fmt: skip
EDIT = Act("edit", gettext_lazy("Edit…"), None, _in_code,
           lambda r, s: [_("It holds from the next slot on; jobs that it has made stay.")],
           ChangeForm, done=gettext_lazy("It holds from the next slot on."),
           target=lambda row: row.name, verb="schedule.edit",
           submit=gettext_lazy("Save"))  # fmt: skip
BACKFILL = Act("backfill", gettext_lazy("Make up for missed slots…"), show=_made,
               target=lambda row: row.name,
               consequences=lambda r, s: [_("Each slot of the past without a job gets one."),
                                          _("They may run side by side.")],
               form=BackfillForm, verb="schedule.backfill")  # fmt: skip
