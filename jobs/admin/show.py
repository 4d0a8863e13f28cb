"""How values are shown: moves as a timeline, JSON with line breaks, texts folded away."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _


def moment(value: datetime) -> str:
    """To the millisecond, in the time zone of whoever looks."""
    local = timezone.localtime(value)
    return f"{date_format(local, 'DATE_FORMAT')} {local:%H:%M:%S}.{local.microsecond // 1000:03}"


def timeline(row: Any) -> SafeString:
    """The moves of a guarded row, oldest first."""
    lines = []
    for number, (epoch, source, target, by, why) in enumerate(row.history):
        if number == 8 and row.history_dropped:
            lines.append(("…", _("%(n)d moves dropped") % {"n": row.history_dropped}, "", ""))
        at = moment(datetime.fromtimestamp(float(epoch), UTC))
        lines.append((at, f"{source} → {target}", by or "", why or ""))
    if not lines:
        return format_html("<p>{}</p>", _("It has not moved yet."))
    head = format_html_join("", "<th scope=col>{}</th>", ((_(t),) for t in _HEAD))
    cells = "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>"
    body = format_html_join("", cells, lines)
    return format_html("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>", head, body)


_HEAD = ("when", "move", "by", "why")


def pretty(value: Any) -> SafeString:
    """JSON, readable."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return format_html("<pre style='white-space: pre-wrap; margin: 0'>{}</pre>", text)


def folded(title: str, text: str) -> SafeString:
    """A long text behind its title."""
    if not text:
        return SafeString("")
    return format_html(
        "<details><summary>{}</summary><pre style='white-space: pre-wrap'>{}</pre></details>",
        title,
        text,
    )
