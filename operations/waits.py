"""Why an operation waits, in words for agents and the office."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

import jobs
from operations.models import Operation
from operations.table import Family

SENTENCES: dict[str, Any] = {
    "unreachable": _("the ERP does not answer"),
    "status_5": _("the ERP is out of order"),
    "blocked_address": _("the address of the ERP is not allowed"),
    "page_changed": _("the pages of the ERP are not as they were"),
    "redirected": _("the ERP leads to another address"),
    "no_browser": _("no worker has a browser"),
    "browser_busy": _("all browsers are in use"),
    "session_ended": _("another login has ended the session"),
    "": _("the answer of the ERP cannot be read"),
}
"""What went wrong in the ERP, by the beginning of the code."""
OTHERWISE = _("an error in this program, which the page of the job shows")


def why(row: Operation) -> str:
    """Return why it waits, in the reader's language, with what went wrong before."""
    text = "\n".join(_busy(row, one) or one.told for one in jobs.explain(row.pk).reasons)
    error = jobs.Job.objects.filter(pk=row.pk).values_list("error", flat=True).first()
    return text.replace(error, _sentence(row.error_code)) if error else text


def _busy(row: Operation, reason: Any) -> str:
    """Return which operation of the agent runs, where the row waits for it."""
    if reason.code != "key_held":
        return ""
    holder = Operation.objects.filter(pk__in=reason.ids, agent_id=row.agent_id).first()
    if holder is None:
        return ""  # a check or the test of the login
    name = {"operation": f"{holder.type} {holder.entity_name}".strip()}
    if holder.spec.family is Family.SYNC and row.spec.family is not Family.SYNC:
        return str(_("the agent is busy with %(operation)s, which steps aside") % name)
    return str(_("the agent is busy with %(operation)s") % name)


def _sentence(code: str) -> str:
    if not code:
        return str(OTHERWISE)
    found = next(words for begin, words in SENTENCES.items() if code.startswith(begin))
    return f"{found} ({code})"
