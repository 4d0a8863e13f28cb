"""Charts drawn by the server as SVG, each with its content in words.

Coordinates are percentages, so that text keeps its size at any width; lines lie in an inner
picture that may be stretched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobs.admin.components import duration, number


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a whole, with its colour."""

    label: Any
    value: float
    tone: str


def stacked(parts: Sequence[Part], total: float, label: str = "") -> SafeString:
    """A bar of parts; what is left of the total is empty."""
    whole = max(total, sum(part.value for part in parts), 1e-9)
    pieces, x = [], 0.0
    for part in parts:
        width = 100 * part.value / whole
        if width:
            pieces.append((f"{x:.3f}%", f"{width:.3f}%", part.tone))
        x += width
    words = label or ", ".join(f"{part.label}: {number(part.value)}" for part in parts)
    return format_html(
        '<svg class="jd-meter" width="100%" height="8" role="img" aria-label="{}">'
        '<rect width="100%" height="8" rx="4" class="jd-fill-track"/>{}</svg>',
        words,
        format_html_join(
            "", '<rect x="{}" width="{}" height="8" class="jd-fill-{}"/>', pieces
        ),
    )  # fmt: skip


def indefinite(words: str) -> SafeString:
    """A bar for what goes on and has no end yet: it shows no share."""
    return format_html(
        '<svg class="jd-meter jd-indefinite" width="100%" height="8" role="img" aria-label="{}">'
        '<rect width="100%" height="8" rx="4" class="jd-fill-track"/>'
        '<line x1="0" x2="100%" y1="4" y2="4" class="jd-dashes"/></svg>',
        words,
    )  # fmt: skip


def meter(done: float, total: float | None, note: str = "") -> SafeString:
    """How far something is."""
    if not total:
        return format_html('<span class="jd-progress">{} {}</span>', number(done), note)
    percent = max(0, min(100, int(100 * done / total)))
    words = _("%(percent)d percent") % {"percent": percent}
    return format_html(
        '<span class="jd-progress" role="progressbar" aria-label="{}" aria-valuemin="0" '
        'aria-valuemax="100" aria-valuenow="{}">{}<span class="jd-quiet">{}%</span></span>',
        _("progress"), percent, _bar(percent, words), percent,
    )  # fmt: skip


def _bar(percent: int, words: str) -> SafeString:
    return format_html(
        '<svg class="jd-meter" width="60" height="6" aria-hidden="true">'
        '<rect width="100%" height="6" rx="3" class="jd-fill-track"/>'
        '<rect width="{}%" height="6" rx="3" class="jd-fill-blue"/></svg>',
        percent,
    )


def legend(parts: Sequence[Part], values: bool = True) -> SafeString:
    """What the colours mean."""
    return format_html(
        '<div class="jd-legend">{}</div>',
        format_html_join(
            "",
            '<span><svg width="10" height="10" aria-hidden="true"><rect width="10" height="10" '
            'rx="3" class="jd-fill-{}"/></svg>{}{}</span>',
            (
                (p.tone, format_html("{} ", number(p.value)) if values else "", p.label)
                for p in parts
            ),
        ),
    )


def spark(values: Sequence[float], label: str, tone: str = "green") -> SafeString:
    """A row of small bars."""
    top = max([*values, 1])
    count = max(len(values), 1)
    bars = (
        (f"{100 * n / count:.2f}%", f"{24 - 23 * v / top:.1f}", f"{80 / count:.2f}%",
         f"{23 * v / top:.1f}", tone)
        for n, v in enumerate(values) if v
    )  # fmt: skip
    return format_html(
        '<svg class="jd-spark" width="110" height="24" role="img" aria-label="{}">'
        '<rect y="23" width="100%" height="1" class="jd-fill-track"/>{}</svg>',
        label,
        format_html_join(
            "", '<rect x="{}" y="{}" width="{}" height="{}" class="jd-fill-{}"/>', bars
        ),
    )  # fmt: skip


def outcomes(states: Sequence[tuple[str, str]], label: str) -> SafeString:
    """A strip with a cell for each outcome, the oldest first: (tone, title)."""
    count = max(len(states), 1)
    cells = (
        (f"{100 * n / count:.2f}%", f"{max(100 / count - 0.6, 0.4):.2f}%", tone, title)
        for n, (tone, title) in enumerate(states)
    )
    return format_html(
        '<svg class="jd-meter" width="100%" height="16" role="img" aria-label="{}">{}</svg>',
        label,
        format_html_join(
            "", '<rect x="{}" width="{}" height="16" class="jd-fill-{}"><title>{}</title></rect>',
            cells,
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One curve of a chart."""

    label: Any
    values: Sequence[float]
    tone: str


def throughput(
    starts: Sequence[datetime],
    lines: Sequence[Line],
    marks: Sequence[tuple[datetime, str]] = (),
    empty: str = "",
) -> SafeString:
    """Curves over time with their axes; marks are moments with a name."""
    most = max((v for line in lines for v in line.values), default=0)
    top = _round_up(most)
    words = "; ".join(
        _("%(label)s: %(sum)s in all, at most %(most)s")
        % {"label": line.label, "sum": number(sum(line.values)), "most": number(max([*line.values, 0]))}  # noqa: E501
        for line in lines
    )  # fmt: skip
    return format_html(
        '<svg class="jd-chart" width="100%" height="190" role="img" aria-label="{}">{}'
        '<svg y="14" width="100%" height="150" viewBox="0 0 1000 150" '
        'preserveAspectRatio="none" overflow="visible">{}</svg>{}{}{}{}</svg>',
        words,
        _grid(),
        format_html_join("", '<polyline points="{}" class="jd-line jd-line-{}"/>',
                         ((_points(line.values, top), line.tone) for line in lines if most)),
        _heights(top),
        _hours(starts),
        _marks(starts, marks),
        "" if most else _nothing(empty),
    )  # fmt: skip


def curves(starts: Sequence[datetime], lines: Sequence[Line], words: str) -> SafeString:
    """Curves that may fall below zero, over time, with their axes and a line at zero."""
    values = [0.0, *(value for line in lines for value in line.values)]
    high, low = max(values), min(values)
    span = high - low or 1.0
    zero = f"{14 + 150 * high / span:.1f}"
    # The names of two heights must not lie upon each other.
    heights = [0.0, *(one for one in (high, low) if abs(one) > span / 10)]
    return format_html(
        '<svg class="jd-chart" width="100%" height="190" role="img" aria-label="{}">{}'
        '<svg y="14" width="100%" height="150" viewBox="0 0 1000 150" '
        'preserveAspectRatio="none" overflow="visible">{}</svg>{}{}</svg>',
        words,
        format_html('<line x1="0" x2="100%" y1="{0}" y2="{0}" class="jd-gridline"/>', zero),
        format_html_join("", '<polyline points="{}" class="jd-line jd-line-{}"/>',
                         ((_points([v - low for v in line.values], span), line.tone)
                          for line in lines)),
        format_html_join("", '<text x="2" y="{}" class="jd-axis">{}</text>',
                         ((f"{10 + 150 * (high - one) / span:.0f}", f"{one:.4g}")
                          for one in heights)),
        _hours(starts),
    )  # fmt: skip


def _nothing(words: str = "") -> SafeString:
    """Return what an empty chart says, rather than a line along its foot."""
    return format_html(
        '<text x="50%" y="94" text-anchor="middle" class="jd-axis jd-chart-empty">{}</text>',
        words or _("Nothing happened in this time."),
    )


def _points(values: Sequence[float], top: float) -> str:
    last = max(len(values) - 1, 1)
    return " ".join(
        f"{1000 * n / last:.1f},{150 - 150 * v / top:.1f}" for n, v in enumerate(values)
    )


_SHARES = (0.0, 0.5, 1.0)


def _grid() -> SafeString:
    rows = ((f"{14 + 150 * (1 - share):.0f}",) for share in _SHARES)
    line = '<line x1="0" x2="100%" y1="{0}" y2="{0}" class="jd-gridline"/>'
    return format_html_join("", line, rows)


def _heights(top: float) -> SafeString:
    """Over the curves, each with a rim that keeps it readable."""
    rows = ((f"{10 + 150 * (1 - share):.0f}", number(_plain(top * share))) for share in _SHARES)
    return format_html_join("", '<text x="2" y="{}" class="jd-axis">{}</text>', rows)


def _plain(number: float) -> float:
    return int(number) if number == int(number) else number


def _hours(starts: Sequence[datetime]) -> SafeString:
    if not starts:
        return SafeString("")
    step = max(1, len(starts) // 4)
    long = starts[-1] - starts[0] > timedelta(days=2)
    shown = [
        (f"{100 * n / max(len(starts) - 1, 1):.1f}%", "start" if not n else "middle",
         timezone.localtime(starts[n]).strftime("%m-%d" if long else "%H:%M"))
        for n in range(0, len(starts) - step // 2, step)
    ]  # fmt: skip
    return format_html_join(
        "", '<text x="{}" y="182" text-anchor="{}" class="jd-axis">{}</text>', shown
    )


def _marks(starts: Sequence[datetime], marks: Sequence[tuple[datetime, str]]) -> SafeString:
    if len(starts) < 2:
        return SafeString("")
    whole = (starts[-1] - starts[0]).total_seconds()
    placed = (
        (f"{100 * (at - starts[0]).total_seconds() / whole:.2f}%", name)
        for at, name in marks if starts[0] <= at <= starts[-1]
    )  # fmt: skip
    return format_html_join(
        "",
        '<line x1="{0}" x2="{0}" y1="14" y2="164" class="jd-mark"><title>{1}</title></line>',
        placed,
    )


def _round_up(value: float) -> float:
    for size in (4, 10, 20, 40, 60, 100, 200, 400, 600, 1000, 2000, 4000, 6000):
        if value <= size:
            return size
    digits = 10 ** (len(str(int(value))) - 1)
    return float(-(-value // digits) * digits)


@dataclass(frozen=True, slots=True)
class Stretch:
    """One attempt: when it began to wait, ran and ended."""

    name: str
    waits_from: datetime | None
    begins: datetime
    ends: datetime
    tone: str
    title: str


def waterfall(stretches: Sequence[Stretch]) -> SafeString:
    """Attempts one under the other: waiting grey, running coloured, dotted between them."""
    if not stretches:
        return SafeString("")
    first = min(s.waits_from or s.begins for s in stretches)
    whole = max((max(s.ends for s in stretches) - first).total_seconds(), 0.001)
    height = 26 * len(stretches) + 22

    def x(at: datetime) -> float:
        return 100 * (at - first).total_seconds() / whole

    rows = []
    for n, s in enumerate(stretches):
        y = 26 * n + 4
        after = (
            stretches[n + 1].waits_from or stretches[n + 1].begins
            if n + 1 < len(stretches)
            else None
        )
        waiting = format_html(
            '<rect x="{}%" y="{}" width="{}%" height="14" class="jd-fill-track"/>',
            f"{x(s.waits_from):.2f}", y, f"{max(x(s.begins) - x(s.waits_from), 0):.2f}",
        ) if s.waits_from else ""  # fmt: skip
        pause = format_html(
            '<line x1="{}%" x2="{}%" y1="{}" y2="{}" class="jd-backoff"/>',
            f"{x(s.ends):.2f}", f"{x(after):.2f}", y + 7, y + 7,
        ) if after and after > s.ends else ""  # fmt: skip
        rows.append((waiting, f"{x(s.begins):.2f}", y, f"{max(x(s.ends) - x(s.begins), 0.5):.2f}",
                     s.tone, s.title, pause))  # fmt: skip
    bars = format_html_join(
        "",
        '{}<rect x="{}%" y="{}" width="{}%" height="14" rx="2" class="jd-fill-{}">'
        "<title>{}</title></rect>{}",
        rows,
    )
    names = format_html_join("", '<text x="0" y="{}" class="jd-axis">{}</text>',
                             ((26 * n + 15, s.name) for n, s in enumerate(stretches)))  # fmt: skip
    ends = format_html_join(
        "", '<text x="100%" y="{}" text-anchor="end" class="jd-axis">{}</text>',
        ((26 * n + 15, duration((s.ends - s.begins).total_seconds())) for n, s in enumerate(stretches)),  # noqa: E501
    )  # fmt: skip
    words = "; ".join(s.title for s in stretches)
    return format_html(
        '<svg class="jd-chart" width="100%" height="{}" role="img" aria-label="{}">{}'
        '<svg x="30" width="100%" height="{}"><svg width="72%" height="{}" overflow="visible">{}'
        '<text x="0" y="{}" class="jd-axis">+0 s</text>'
        '<text x="100%" y="{}" text-anchor="end" class="jd-axis">+{}</text></svg></svg>{}</svg>',
        height, words, names, height, height, bars, height - 6, height - 6, duration(whole), ends,
    )  # fmt: skip
