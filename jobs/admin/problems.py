"""What is wrong now, as ``jobs.operate`` found it: in the reader's words, with a way to mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs import problems as of_apps
from jobs.admin.components import Capped, problem, time_tag
from jobs.admin.queuerows import shown
from jobs.operate.phrases import scope_word
from jobs.operate.troubles import Held, Problem
from jobs.templatetags.jobs_admin import jd_short

_RED = {"silent_worker", "lost_worker", "no_dispatcher", "redis", "no_scheduler", "no_relay",
        "failures"}  # fmt: skip


def problems(site: str, found: Iterable[Problem]) -> list[SafeString]:
    """The strip over the overview: what is broken first, what somebody has closed last."""
    return [_drawn(site, one) for one in sorted(found, key=_rank)]


def _tone(one: Problem) -> str:
    if one.code == "closed":
        return "violet"
    return "red" if one.code in _RED else "amber"


def _rank(one: Problem) -> int:
    return ("red", "amber", "violet").index(_tone(one))


def _drawn(site: str, one: Problem) -> SafeString:
    if (declared := of_apps.declared(one.code)) is not None:
        url = _list(site, declared.page) if declared.page else ""
        return problem(_tone(one), declared.text(one), url=url, link=str(declared.link))
    text = _TEXTS[one.code](one) if one.code in _TEXTS else one.text
    if one.jobs:
        text = format_html("{} {}", text, _held(site, one))
    page, words = _link(one)
    return problem(_tone(one), text, url=_url(site, *page) if page else "", link=words)


def _url(site: str, page: str, key: str = "") -> str:
    if key:
        return reverse(
            f"{site}:jobs_{page}_change", args=[quote(key) if page == "breaker" else key]
        )
    return _list(site, f"jobs_{page}")


def _list(site: str, page: str) -> str:
    name, _mark, query = page.partition("?")
    url = reverse(f"{site}:{name}_changelist")
    return f"{url}?{query}" if query else url


def _held(site: str, one: Problem) -> SafeString:
    def url(job: Held) -> str:
        return reverse(f"{site}:jobs_job_change", args=[job.id])

    links = format_html_join(
        ", ",
        '<a href="{}">{} <span class="jd-mono">{}</span></a>',
        ((url(job), job.kind, jd_short(job.id)) for job in one.jobs),
    )
    words = _("It holds {}.") if one.code == "silent_worker" else _("It held {}.")
    return format_html(words, links)


# ---- the texts


def _name(text: object) -> SafeString:
    return format_html("<b>{}</b>", text)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"


def _no_worker(one: Problem) -> SafeString:
    count = shown(one.count) if one.count else Capped(0)
    words = ngettext(
        "Queue {} has {} waiting job and no worker.",
        "Queue {} has {} waiting jobs and no worker.",
        count.value,
    )
    return format_html(words, _name(one.subject), count)


def _doubt(one: Problem) -> str:
    count = shown(one.count) if one.count else Capped(0)
    words = ngettext(
        "%(n)s effect may or may not have happened.",
        "%(n)s effects may or may not have happened.",
        count.value,
    )
    return words % {"n": count}


def _schedule(one: Problem) -> SafeString:
    if one.why:
        return format_html(_("Schedule {} makes no job: {}"), _name(one.subject), one.why)
    words = _("Schedule {} has missed its slot of {}.")
    return format_html(words, _name(one.subject), time_tag(one.since))


def _failures(one: Problem) -> SafeString:
    now, usual = one.shares or (0.0, 0.0)
    words = _("{} of the last attempts failed; usually it is {}.")
    return format_html(words, _name(_percent(now)), _percent(usual))


def _closed(one: Problem) -> SafeString | str:
    stop = one.stop
    if stop is None:
        return one.text
    scope = _name(capfirst(scope_word(stop.scope).told))
    if stop.what == "pause":
        until: Any = time_tag(stop.until) if stop.until else _("it is resumed")
        return format_html(_("{} is paused by {} until {}: {}"), scope, stop.by, until, stop.reason)
    until = time_tag(stop.until) if stop.until else "…"
    return format_html(_("Blackout: {} is closed until {}: {}"), scope, until, stop.reason)


_TEXTS: dict[str, Callable[[Problem], SafeString | str]] = {
    "no_worker": _no_worker,
    "long_wait": lambda one: format_html(
        _("In queue {} a job has been waiting for {}."), _name(one.subject),
        time_tag(one.since, "for"),
    ),
    "closed": _closed,
    "failures": _failures,
    "circuit": lambda one: format_html(
        _("Circuit {} has been open for {}: {}"), _name(one.subject), time_tag(one.since, "for"),
        one.why,
    ),
    "silent_worker": lambda one: format_html(
        _("Worker {} has fallen silent: its lease ended {}."), _name(one.subject),
        time_tag(one.since),
    ),
    "lost_worker": lambda one: format_html(
        _("Worker {} was lost {}."), _name(one.subject), time_tag(one.since)
    ),
    "old_transaction": lambda one: format_html(
        _("A transaction of the database has been open for {}, which slows every claim down."),
        time_tag(one.since, "for"),
    ),
    "no_dispatcher": lambda one: _(
        "No dispatcher is running: waiting jobs are not dispatched. "
        "Start one with “manage.py jobs dispatch”."
    ),
    "redis": lambda one: _("Redis cannot be reached: jobs are kept, and wait."),
    "no_scheduler": lambda one: _("No scheduler is running; jobs of schedules are not created."),
    "no_relay": lambda one: _("No relay is running; events wait in the outbox."),
    "doubt": _doubt,
    "schedule": _schedule,
    "outbox_lag": lambda one: format_html(
        _("An event has waited in the outbox for {}."), time_tag(one.since, "for")
    ),
    "outbox_stuck": lambda one: _("Subscribers have refused events, or events are parked."),
}  # fmt: skip


def _link(one: Problem) -> tuple[tuple[str, ...], str]:
    """The page that helps, with the key of its row, and the words that lead there."""
    queue = one.code == "closed" and one.subject.startswith("queue:")
    if queue or one.code in ("no_worker", "long_wait"):
        return ("queue", one.subject.removeprefix("queue:")), _("See the queue")
    if one.code == "closed" and one.stop and one.stop.what == "blackout":
        return ("blackout",), _("See the windows")
    links: dict[str, tuple[tuple[str, ...], str]] = {
        "closed": (("pause",), _("See the pauses")),
        "failures": (("job?tab=dead",), _("See what failed")),
        "circuit": (("breaker", one.subject), _("See the circuit breaker")),
        "silent_worker": (("workerpage",), _("See what runs")),
        "lost_worker": (("workerpage",), _("See what runs")),
        "no_dispatcher": (("workerpage",), _("See what runs")),
        "no_scheduler": (("workerpage",), _("See the services")),
        "no_relay": (("workerpage",), _("See the services")),
        "doubt": (("effect?state=in_doubt",), _("Decide")),
        "schedule": (("schedule", one.subject), _("See the schedule")),
        "outbox_lag": (("outbox",), _("See the outbox")),
        "outbox_stuck": (("outbox",), _("See the outbox")),
    }
    return links.get(one.code, ((), ""))
