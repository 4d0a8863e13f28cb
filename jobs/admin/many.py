"""Acts on many rows of a list: one page that asks, and the verb done to each row by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils.formats import localize
from django.utils.translation import gettext as _

from jobs.admin.access import missing
from jobs.admin.actions import Act, Button
from jobs.admin.refusals import in_words
from jobs.errors import JobsError

if TYPE_CHECKING:
    from jobs.admin.acting import Acting

MOST = 200
"""Rows at a time; more are done with once the first are."""
SHOWN = 10


def buttons(page: Acting, request: HttpRequest) -> list[Button]:
    """Return what can be done with the rows that are selected."""
    return [
        Button(act.name, str(act.label).rstrip("…"), "", act.tone, missing(request, act.permission))
        for act in page.row_acts()
        if act.many
    ]


def selected(page: Acting, request: HttpRequest) -> list[Any]:
    """Return the rows that are selected and in sight, once each."""
    keys = dict.fromkeys(request.GET.getlist("_selected")[:MOST])
    return [row for key in keys if (row := page.find(request, key)) is not None]


def act_of(act: Act, rows: Sequence[Any]) -> Act:
    """Return the act that does it to each of the rows."""

    def forbidden(request: HttpRequest, _row: Any) -> str:
        """Say why none of them can be dealt with, where none can."""
        if not rows:
            return _("None of these is there any more.")
        reasons = [act.forbidden(request, row) for row in rows]
        return reasons[0] if all(reasons) else ""

    def consequences(request: HttpRequest, _row: Any) -> Sequence[Any]:
        if not rows:
            return []
        names = ", ".join(str(row) for row in rows[:SHOWN])
        if len(rows) > SHOWN:
            names = _("%(names)s and %(n)s more") % {"names": names, "n": len(rows) - SHOWN}
        return [f"{localize(len(rows))}: {names}", *act.consequences(request, rows[0])]

    return replace(
        act, run=_each(act, rows), forbidden=forbidden, consequences=consequences, done=""
    )


def _each(act: Act, rows: Sequence[Any]) -> Callable[..., str]:
    def run(request: HttpRequest, _row: Any, given: dict[str, Any]) -> str:
        left: list[str] = []
        for row in rows:
            why = act.forbidden(request, row)
            if not why:
                try:
                    act.do(request, row, given)
                except JobsError as error:
                    why = in_words(error)
                except PermissionDenied as error:  # where a page has made one of an error
                    cause = error.__cause__
                    why = in_words(cause) if isinstance(cause, JobsError) else _("Not allowed")
            if why:
                left.append(f"{row}: {why}")
        for words in left[:SHOWN]:
            messages.warning(request, words)
        done = {"n": localize(len(rows) - len(left)), "m": localize(len(rows))}
        return _("Done with %(n)s of %(m)s.") % done

    return run
