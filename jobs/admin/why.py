"""Why a job is where it is, as its page shows it."""

from __future__ import annotations

import re
from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy

from jobs.operate.explain import Reason

_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_DECIDE = {
    "dead_letter": ("deadletter", gettext_lazy("Open the dead letter")),
    "in_doubt": ("effect", gettext_lazy("Look at the effect")),
}
"""Reasons that are about something else than jobs: its model, and what leads there."""


def shown(site: str, reason: Reason) -> dict[str, Any]:
    """The reason with its tone, and what leads to whatever it is about."""
    links = []
    if reason.code in _DECIDE:
        model, words = _DECIDE[reason.code]
        links = [(reverse(f"{site}:jobs_{model}_change", args=[one]), words) for one in reason.ids]
    good = ("running", "queued", "turn", "not_due", "succeeded")
    bad = ("failed", "silent_worker", "unknown_kind", "redis_away", "no_worker", "no_dispatcher")
    tone = "blue" if reason.code in good else "red" if reason.code in bad else "amber"
    return {
        "text": _linked(site, reason),
        "until": reason.until,
        "links": links,
        "tone": tone,
        "icon": {"blue": "clock", "red": "alert"}.get(tone, "pause"),
        "code": reason.code,
    }


def _linked(site: str, reason: Reason) -> SafeString:
    """The reason's words, in which jobs are links."""
    text = capfirst(reason.told or reason.text)
    return format_html_join(
        "", "{}", ((_job_link(site, part) if part in reason.ids else part,)
                   for part in _ID.split(text))
    )  # fmt: skip


def _job_link(site: str, key: str) -> SafeString:
    url = reverse(f"{site}:jobs_job_change", args=[key])
    return format_html('<a class="jd-mono" href="{}" title="{}">…{}</a>', url, key, key[-8:])
