"""What the list of jobs shows, as a file."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.access import principal
from jobs.admin.actions import Act, Reason
from jobs.admin.components import number
from jobs.operate import exports
from jobs.operate.permissions import RUN_BULK

FORMATS = {"csv": "text/csv", "jsonl": "application/jsonl"}
_FORMULA = re.compile(r"(^|[;,\t\r\n])(?=[=+\-@\t\r＝＋－＠])")  # noqa: RUF001
"""Where a spreadsheet would begin a formula: in a cell, whichever character it splits lines at."""


class ExportForm(Reason):
    """Of which jobs, and how the file is written."""

    format = forms.ChoiceField(
        label=gettext_lazy("Format"), choices=[(name, name.upper()) for name in FORMATS]
    )
    query = forms.CharField(label=gettext_lazy("Query"), required=False, max_length=3000)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["query"].initial = self.request.GET.get("query", "")


def _run(request: HttpRequest, row: Any, given: dict[str, Any]) -> HttpResponseBase:
    rows = exports.export(given["query"], by=principal(request), reason=given["reason"])
    write = as_csv if given["format"] == "csv" else as_lines
    answer = StreamingHttpResponse(write(rows), content_type=FORMATS[given["format"]])
    answer["Content-Disposition"] = f'attachment; filename="jobs.{given["format"]}"'
    answer["Cache-Control"] = "no-store"
    return answer


def as_csv(rows: Iterable[list[Any]]) -> Iterator[str]:
    """Lines of a table; a text that a spreadsheet would calculate stays text."""
    line = csv.writer(_Echo())
    yield line.writerow(exports.COLUMNS)
    for row in rows:
        yield line.writerow([_cell(value) for value in row])


def as_lines(rows: Iterable[list[Any]]) -> Iterator[str]:
    """An object per line."""
    for row in rows:
        found = dict(zip(exports.COLUMNS, row, strict=True))
        yield json.dumps(found, default=_plain, ensure_ascii=False) + "\n"


class _Echo:
    def write(self, text: str) -> str:
        return text


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, list):
        value = " ".join(map(str, value))
    text = _plain(value)
    return _FORMULA.sub(r"\1'", text) if isinstance(value, str) else text


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


EXPORT = Act(
    "export", gettext_lazy("Export…"), _run, form=ExportForm, verb="job.export",
    needs=RUN_BULK,
    consequences=lambda r, j: [
        _("At most %(n)s jobs, the newest first, without payloads.")
        % {"n": number(exports.MOST)},
        _("The audit keeps who took them, and why."),
    ],
)  # fmt: skip
