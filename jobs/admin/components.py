"""Pieces of pages: badges, times, bars. Each answers safe HTML made of escaped values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format, localize, number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobs.admin.words import look

# Drawn for this project: strokes on a 12 x 12 field.
_ICONS = {
    "tick": "M2 6.5 4.8 9.3 10 3.2",
    "cross": "M3 3 9 9 M9 3 3 9",
    "clock": "M6 1.2a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6Z M6 3.4V6l1.8 1.4",
    "lines": "M2 3h8 M2 6h8 M2 9h5",
    "turn": "M10.5 6A4.5 4.5 0 1 1 6 1.5",
    "again": "M9.8 4.2A4.4 4.4 0 1 0 10.4 7 M10 1.4v3H7",
    "stop": "M6 1.2a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6Z M2.8 9.2 9.2 2.8",
    "pause": "M4 2.5v7 M8 2.5v7",
    "lock": "M3 5.5h6v5H3Z M4.2 5.5V3.8a1.8 1.8 0 0 1 3.6 0v1.7",
    "alert": "M6 1.6 11 10.4H1Z M6 5v2.2 M6 8.7v.2",
    "dot": "M6 4.6a1.4 1.4 0 1 0 0 2.8 1.4 1.4 0 0 0 0-2.8Z",
}


def icon(name: str) -> SafeString:
    """A small picture that says nothing on its own."""
    return format_html(
        '<svg class="jd-icon" width="12" height="12" viewBox="0 0 12 12" fill="none" '
        'stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" '
        'aria-hidden="true" focusable="false"><path d="{}"/></svg>',
        _ICONS.get(name, _ICONS["dot"]),
    )


def badge(state: str, label: Any = None, title: str = "") -> SafeString:
    """The state as icon, word and colour."""
    it = look(state)
    spin = " jd-spin" if it.icon == "turn" else ""
    return format_html(
        '<span class="jd-badge jd-{}{}"{}>{}{}</span>',
        it.tone,
        spin,
        format_html(' title="{}"', title) if title else "",
        icon(it.icon),
        label if label is not None else it.label,
    )


def tag(text: object) -> SafeString:
    """A name: of a queue, a label, a tenant."""
    return format_html('<span class="jd-tag">{}</span>', text)


def moment(value: datetime) -> str:
    """To the second, in the reader's time zone, which is named."""
    local = timezone.localtime(value)
    offset = local.strftime("%z")
    return f"{date_format(local, 'Y-m-d H:i:s')} UTC{offset[:3]}:{offset[3:]}"


def time_tag(value: datetime | float | None, how: str = "ago") -> SafeString:
    """A moment, which the page turns into "3m ago", or with ``for`` into "3 min 2 s".

    What the server writes holds no clock, so that unchanged fragments stay unchanged.
    """
    if value is None:
        return SafeString("—")
    if not isinstance(value, datetime):
        value = datetime.fromtimestamp(float(value), UTC)
    stamp = value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = moment(value)
    return format_html(
        '<time datetime="{}" data-jd-time="{}" title="{}" class="jd-nowrap">{}</time>',
        stamp, how, text, text,
    )  # fmt: skip


def number(value: float) -> str:
    """As people write numbers, thousands apart, whatever the site does elsewhere."""
    return number_format(value, use_l10n=True, force_grouping=True)


def duration(seconds: float | None) -> str:
    """So long, in two units at most."""
    if seconds is None:
        return "—"
    if seconds < 1:
        return _("%(n)d ms") % {"n": round(seconds * 1000)}
    if seconds < 60:
        return _("%(n)s s") % {"n": localize(round(seconds, 1))}
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        both = _("%(m)d min %(s)d s") if rest else _("%(m)d min")
        return both % {"m": minutes, "s": rest}
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        both = _("%(h)d h %(m)d min") if minutes else _("%(h)d h")
        return both % {"h": hours, "m": minutes}
    days, hours = divmod(hours, 24)
    both = _("%(d)d d %(h)d h") if hours else _("%(d)d d")
    return both % {"d": days, "h": hours}


@dataclass(frozen=True, slots=True)
class Capped:
    """A count that stopped at a limit."""

    value: int
    more: bool = False

    def __str__(self) -> str:
        return f"{number(self.value)}{'+' if self.more else ''}"

    def __bool__(self) -> bool:
        return self.value > 0


def capped(counted: int, cap: int) -> Capped:
    """The count; one more than the cap says that there are more."""
    return Capped(min(counted, cap), counted > cap)


def tile(
    number: object, label: object, *, url: str = "", tone: str = "", note: object = ""
) -> SafeString:
    """A number with its name, linked to what it counts."""
    inner = format_html(
        '<b class="{}">{}</b><span>{}</span>{}',
        f"jd-{tone}" if tone else "",
        number,
        label,
        format_html("<small>{}</small>", note) if note else "",
    )
    if url:
        return format_html('<a class="jd-card jd-tile" href="{}">{}</a>', url, inner)
    return format_html('<div class="jd-card jd-tile">{}</div>', inner)


def tiles(found: Sequence[SafeString]) -> SafeString:
    """Tiles side by side."""
    return format_html(
        '<div class="jd-grid jd-tiles">{}</div>', format_html_join("", "{}", ((t,) for t in found))
    )


def problem(tone: str, text: object, *, url: str = "", link: object = "") -> SafeString:
    """Something that is wrong, with one way to mend it."""
    names = {"red": "alert", "amber": "alert", "violet": "pause", "blue": "dot", "grey": "dot"}
    more = format_html(' <a href="{}">{}</a>', url, link) if url else ""
    return format_html(
        '<div class="jd-problem jd-{}">{}<span>{}{}</span></div>',
        tone, icon(names.get(tone, "alert")), text, more,
    )  # fmt: skip


def empty(title: object, advice: object = "") -> SafeString:
    """Says that there is nothing, and what to do next."""
    return format_html('<div class="jd-empty"><b>{}</b>{}</div>', title, advice)


def copy_button(text: str, label: object = None) -> SafeString:
    """Copies the text, or with ``#id`` the text of that element."""
    return format_html(
        '<button type="button" class="jd-btn jd-btn-small" data-jd-copy="{}" '
        'data-jd-copied="{}">{}</button>',
        text,
        _("Copied"),
        label if label is not None else _("Copy"),
    )


def pretty(value: Any, limit: int = 20_000) -> str:
    """JSON with sorted keys and exact numbers, cut where it becomes too long to read."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    if len(text) > limit:
        cut = _("… %(n)d more characters") % {"n": len(text) - limit}
        return f"{text[:limit]}\n{cut}"
    return text
