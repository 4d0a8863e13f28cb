"""The list of jobs: tabs, a query, pages in both directions; counts that stop at a cap."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core import signing
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import registry
from jobs.admin import charts
from jobs.admin.access import missing, principal
from jobs.admin.actions import site_of
from jobs.admin.copying import api, cli
from jobs.admin.refusals import in_words
from jobs.admin.views import TAB_LABELS, offered
from jobs.admin.words import shown_state
from jobs.errors import JobsError
from jobs.models import Job
from jobs.operate import reads, search
from jobs.operate.bulk import ACTIONS
from jobs.operate.permissions import RUN_BULK
from jobs.operate.query import KEYS
from jobs.operate.reads import Count
from jobs.states import FINAL_STATES

PAGE = 25
# Without a moment in it: a page that has not changed stays the same text.
_signer = signing.Signer(salt="jobs.admin.jobs")
AGES = {"1h": gettext_lazy("last hour"), "24h": gettext_lazy("last 24 hours"),
        "7d": gettext_lazy("last 7 days")}  # fmt: skip
BULK = {
    "retry": gettext_lazy("Retry…"),
    "replay": gettext_lazy("Replay as new…"),
    "run_now": gettext_lazy("Run now…"),
    "cancel": gettext_lazy("Cancel…"),
    "edit": gettext_lazy("Change queue or priority…"),
}
REGIONS = {"jd-jobs": "jobs/admin/parts/jobs.html"}


def build(request: HttpRequest, page_url: Any, buttons: Any) -> dict[str, Any]:
    """One page of the list. A query that makes no sense says what is wrong, and shows nothing."""
    who = principal(request)
    tab = request.GET.get("tab", "all")
    tab = tab if tab in search.TABS else "all"
    written = request.GET.get("q", "").strip()[:2000]
    extra = _filters(request)
    asked = " ".join(part for part in (written, *extra) if part)
    whole = " ".join(part for part in (asked, search.TABS[tab]) if part)
    data: dict[str, Any] = {
        "title": _("Jobs"),
        "q": written,
        "tab": tab,
        "query": whole,
        "jd_regions": REGIONS,
        "problem": "",
        "rows": [],
        "tabs": [],
        "notices": (),
        "is_cut": False,
        "kinds": sorted(h.kind for h in registry.handlers()),
        "queues": [],
        "kind": request.GET.get("kind", ""),
        "queue": request.GET.get("queue", ""),
        "age": request.GET.get("age", ""),
        "ages": AGES.items(),
        "asked": asked,
        "help": [(key.name, key.help) for key in KEYS.values()],
        "bulk": _bulk(request),
        "api": api("job_list", query=whole),
        "cli": cli("list", "--", whole) if whole else cli("list"),
    }
    try:
        with reads.bounded():
            if not {"_fragment", "_look", "_stream"} & set(request.GET):
                data["queues"] = search.suggestions("queue", by=who, limit=100)
                data["words"] = _words(request, data)
                data["views"] = offered(site_of(request), who, asked, tab)
            counts = search.counts(asked, by=who)
            page = search.jobs(whole, by=who, limit=PAGE, **_place(request))
    except JobsError as error:
        return {
            **data,
            "problem": in_words(error),
            "tabs": _tabs(request, tab, {}),
            "api": "",
            "cli": "",
        }
    data["tabs"] = _tabs(request, tab, counts)
    data["notices"] = page.told
    data["is_cut"] = page.capped
    data["rows"] = [_row(job, page_url, buttons) for job in page.jobs]
    data["older"] = _turn(request, "after", page.next)
    data["newer"] = _turn(request, "before", page.previous)
    return data


def _words(request: HttpRequest, data: dict[str, Any]) -> list[str]:
    """What the search box offers while somebody types."""
    who = principal(request)
    found = [f"{key}:" for key in KEYS]
    known = {key: search.suggestions(key, by=who, limit=30) for key in ("tag", "error")}
    known |= {"queue": data["queues"], "kind": data["kinds"]}
    for key, values in known.items():
        for value in values[:30]:
            plain = not set(value) & set(' "\\*()')
            found.append(f"{key}:{value}" if plain else f'{key}:"{value}"')
    return found


def _filters(request: HttpRequest) -> list[str]:
    """What was chosen beside the query, in its language."""
    found = []
    for name in ("kind", "queue"):
        if value := request.GET.get(name, ""):
            found.append(
                f'{name}:"{value}"'.replace("\\", "") if " " in value else f"{name}:{value}"
            )
    if request.GET.get("age") in AGES:
        found.append(f"created>-{request.GET['age']}")
    return found


def _place(request: HttpRequest) -> dict[str, Any]:
    for name in ("after", "before"):
        if text := request.GET.get(name, ""):
            try:
                at, key = _signer.unsign_object(text)
                return {name: (datetime.fromisoformat(at), UUID(key))}
            except (signing.BadSignature, ValueError):
                return {}
    return {}


def _turn(request: HttpRequest, name: str, place: Any) -> str:
    if place is None:
        return ""
    text = _signer.sign_object([place[0].isoformat(), str(place[1])])
    return "?" + urlencode({**_kept(request), name: text})


def _kept(request: HttpRequest) -> dict[str, str]:
    return {n: request.GET[n] for n in ("tab", "q", "kind", "queue", "age") if request.GET.get(n)}


def _tabs(request: HttpRequest, current: str, counts: Any) -> list[dict[str, Any]]:
    kept = {name: value for name, value in _kept(request).items() if name != "tab"}
    return [
        {"label": label, "count": _known(counts.get(name)) if name != "all" else None,
         "url": "?" + urlencode({**kept, **({"tab": name} if name != "all" else {})}),
         "on": name == current}
        for name, label in TAB_LABELS.items()
    ]  # fmt: skip


def _known(count: Count | None) -> Any:
    """The count; nobody knows it where a look that was cut short has found none."""
    return "?" if count is not None and count.capped and not count.value else count


def _row(job: Job, page_url: Any, buttons: Any) -> dict[str, Any]:
    state = shown_state(job)
    progress = job.progress if isinstance(job.progress, dict) else {}
    total = progress.get("total")
    shown = isinstance(total, int | float) and total and job.state not in FINAL_STATES
    return {
        "job": job,
        "state": state,
        "url": page_url(job.pk),
        "error": (job.error or job.reason) if job.state == "failed" or state == "retrying" else "",
        "progress": charts.meter(progress.get("done") or 0, total) if shown else "",
        "when": job.finished_at
        or (job.started_at if job.state == "running" else None)
        or (job.run_at if state in ("scheduled", "retrying") else None)
        or job.created_at,
        "buttons": buttons(job),
    }


def _bulk(request: HttpRequest) -> Sequence[dict[str, Any]]:
    """What can be done with many, or why not."""
    return [
        {"name": name, "label": label,
         "why_not": missing(request, RUN_BULK) or missing(request, ACTIONS[name].permission)}
        for name, label in BULK.items()
    ]  # fmt: skip
