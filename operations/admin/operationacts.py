"""What is done with operations: stopping, trying again, and both decisions of a doubt."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import Act, Reason, Words, principal
from operations import states, verbs
from operations.models import Operation, Phase
from operations.table import OPERATIONS
from operations.verify import MISMATCH


def is_mismatch(row: Operation) -> bool:
    """Return whether a person has to decide about values that differ."""
    return row.phase == Phase.ERP_SAVE_DONE and row.error_code == MISMATCH


def _unless(fits: bool, row: Operation) -> str:
    return "" if fits else _("It is %(phase)s.") % {"phase": row.get_phase_display()}


def _no_cancel(request: HttpRequest, row: Operation) -> str:
    return _unless(row.phase in (Phase.QUEUED, Phase.IN_PROGRESS), row)


def _no_retry(request: HttpRequest, row: Operation) -> str:
    finishing = (Phase.ERP_SAVE_DONE, Phase.DB_COMMITTED)
    return _unless(row.phase in (*states.ENDED, *finishing) and not is_mismatch(row), row)


def _no_doubt(request: HttpRequest, row: Operation) -> str:
    return _unless(row.phase == Phase.IN_DOUBT, row)


def _no_number(request: HttpRequest, row: Operation) -> str:
    return _unless(row.phase == Phase.IN_DOUBT or row.has_wrong_number, row)


def _no_mismatch(request: HttpRequest, row: Operation) -> str:
    return _unless(is_mismatch(row), row)


class CancelForm(Reason):
    """Form to cancel an operation."""

    words = {"force": Words(gettext_lazy("Kill its process if it does not stop by itself"))}


class SavedForm(Reason):
    """Form to say under which number the ERP has a write."""

    words = {"erp_id": Words(gettext_lazy("Number in the ERP"))}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["erp_id"].required = True


class StopForm(Reason):
    """Form to choose a type of operation."""

    words = {"type": Words(gettext_lazy("Type"), choices={type: type for type in OPERATIONS})}


def _stop_type(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    count = verbs.stop_type(by=principal(request), **given)
    return _("Operations that were cancelled or asked to stop: %(count)s") % {"count": count}


def _cancel(request: HttpRequest, row: Operation, given: dict[str, Any]) -> str:
    state = verbs.cancel(row.pk, by=principal(request), **given)
    return _("It is cancelled.") if state == "cancelled" else _("It was asked to stop.")


def _deciding(how: Any) -> Any:
    def decide(request: HttpRequest, row: Operation, given: dict[str, Any]) -> str:
        verbs.resolve(row.pk, how, by=principal(request), **given)
        return _("The decision is stored.")

    return decide


ACTS = (
    Act("cancel", gettext_lazy("Cancel…"), _cancel, _no_cancel, form=CancelForm, tone="danger",
        verb="operation.cancel", many=True, consequences=lambda r, o: [
            _("It is cancelled at once while it waits, and at its next check while it runs."),
            _("A write whose call has begun is not cancelled, unless it is forced."),
        ]),
    Act("retry", gettext_lazy("Try again…"), forbidden=_no_retry, tone="primary",
        verb="operation.retry", many=True, consequences=lambda r, o: [
            _("It waits for its turn again."),
            _("What the ERP has already is only finished here."),
        ]),
    Act("saved", gettext_lazy("The ERP has it…"), _deciding("saved"), _no_number, form=SavedForm,
        tone="primary", verb="operation.resolve", consequences=lambda r, o: [
            _("Search the ERP for the reference %(id)s first.") % {"id": o.pk},
            _("It is finished here under the number that you give."),
        ]),
    Act("not-saved", gettext_lazy("The ERP does not have it…"), _deciding("not_saved"), _no_doubt,
        verb="operation.resolve", consequences=lambda r, o: [
            _("Search the ERP for the reference %(id)s first.") % {"id": o.pk},
            _("It ends, nothing was saved, and it can be tried again."),
            _("If the ERP has it after all, trying again makes a second one."),
        ]),
    Act("accept", gettext_lazy("Accept the ERP's values…"), _deciding("accept"), _no_mismatch,
        tone="primary", verb="operation.resolve", consequences=lambda r, o: [
            _("The values of the ERP are stored here, and the operation is complete."),
        ]),
    Act("recheck", gettext_lazy("Compare again…"), _deciding("recheck"), _no_mismatch,
        verb="operation.resolve", consequences=lambda r, o: [
            _("Correct the values in the ERP first."),
            _("The ERP is read again; nothing is written to it."),
        ]),
)  # fmt: skip
STOP_TYPE = Act(
    "stop-type", gettext_lazy("Stop a type…"), _stop_type, form=StopForm, tone="danger",
    verb="operation.stop_type", consequences=lambda r, o: [
        _("All operations of the type that can be cancelled are cancelled, of all agents."),
        _("A write whose call has begun is not cancelled."),
    ],
)  # fmt: skip
