"""The page of a job: why it is where it is, what it has been through, and what belongs to it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobs import conf, registry
from jobs.admin import charts
from jobs.admin.access import missing, principal, visible
from jobs.admin.components import duration, pretty
from jobs.admin.copying import api, cli
from jobs.admin.panels import panels_of
from jobs.admin.recent import recent_acts
from jobs.admin.why import shown
from jobs.admin.words import REASONS, look, shown_state
from jobs.engine import sql
from jobs.models import Batch, DeadLetter, Effect, Job, Lease, Outbox, Schedule
from jobs.operate import stats
from jobs.operate.explained import explain_to
from jobs.operate.permissions import VIEW_PAYLOAD
from jobs.operate.shown import public_data, public_payload
from jobs.states import FINAL_STATES

ATTEMPTS = 25
"""This many of the latest attempts are shown."""
QUIET_CODES = ("succeeded",)
_FOREIGN = re.compile(
    r'File "[^"]*(site-packages|dist-packages|/lib/python3|/jobs/engine/|<frozen)'
)


def build(request: HttpRequest, site: str, job: Job) -> dict[str, Any]:
    """Everything that the page shows."""
    final = job.state in FINAL_STATES
    attempts = list(job.attempts.order_by("-number")[:ATTEMPTS])
    lease = Lease.objects.using(sql.alias()).filter(owner=job.owner).first() if job.owner else None
    why = explain_to(job.pk, by=principal(request))
    sees = not missing(request, VIEW_PAYLOAD)
    return {
        "job": job,
        "state": shown_state(job),
        "final": final,
        "cause": REASONS.get(job.reason, job.reason),
        "why": [] if final and why.codes == QUIET_CODES else [shown(site, r) for r in why.reasons],
        "why_title": _("How it ended") if final else _("Where it is and why"),
        "steps": _steps(job),
        "progress": _progress(job, sees),
        "waterfall": _waterfall(job, attempts),
        "attempts": [_attempt(a, n == 0) for n, a in enumerate(attempts)],
        "more_attempts": job.attempt > len(attempts) and job.attempt > 1,
        "moves": _moves(job),
        "facts": _facts(request, site, job, lease),
        "payload": pretty(public_payload(job)) if sees else None,
        "result": pretty(public_data(job.result)) if sees and job.result is not None else None,
        "no_payload": missing(request, VIEW_PAYLOAD),
        "panels": panels_of(request, job, _may(request)),
        "related": _related(request, site, job),
        "same": _same_kind(job) if principal(request).scope.is_everything else None,
        "acts": recent_acts(request, site, target_kind="job", target_id=str(job.pk)),
        "log_url": _log_url(job),
        "api": api("job_get", job.pk),
        "cli": cli("explain", job.pk),
    }


def _may(request: HttpRequest) -> Any:
    def may(name: str) -> bool:
        return request.user.has_perm(name) if "." in name else principal(request).may(name)

    return may


def _steps(job: Job) -> list[dict[str, Any]]:
    """The path from its beginning to its end, with when it was last at each place."""
    seen: dict[str, float] = {"pending": job.created_at.timestamp()}
    for epoch, _source, target, _by, _why in job.history:
        seen[str(target)] = float(epoch)
    retried = [float(m[0]) for m in job.history if m[1:3] == ["running", "pending"]]
    state = shown_state(job)
    names = ["blocked"] if job.state == "blocked" or job.open_parents else []
    names += ["scheduled"] if state == "scheduled" else []
    names += ["pending", "queued", "running"]
    names += ["retrying"] if retried or state == "retrying" else []
    names.append(str(job.state) if job.state in FINAL_STATES else "succeeded")
    current = {"cancelling": "running"}.get(state, state)
    if state == "scheduled":  # has only its time to wait for: the rest of the path is ahead
        del seen["pending"]
    if retried:
        seen["retrying"] = retried[-1]
    seen["scheduled"] = job.created_at.timestamp()
    seen["blocked"] = job.created_at.timestamp()
    return [
        {"name": look(name).label, "tone": look(name).tone, "at": seen.get(name),
         "now": name == current}
        for name in names
    ]  # fmt: skip


def _progress(job: Job, sees: bool) -> dict[str, Any] | None:
    data = public_data(job.progress)
    if not isinstance(data, dict) or not isinstance(data.get("done"), int | float):
        return None
    total = data.get("total") if isinstance(data.get("total"), int | float) else None
    return {"meter": charts.meter(data["done"], total), "done": data["done"], "total": total,
            "note": str(data.get("note") or "") if sees else ""}  # fmt: skip


def _waterfall(job: Job, attempts: list[Any]) -> SafeString:
    by_number = {a.number: a for a in attempts}
    found: list[charts.Stretch] = []
    waits = job.created_at
    runs = [(float(m[0]), m) for m in job.history if m[1] == "running" or m[2] == "running"]
    begun: datetime | None = None
    number = job.attempt - sum(1 for _, m in runs if m[2] == "running")
    queued: datetime | None = None
    for epoch, _source, target, _by, _why in job.history:
        at = datetime.fromtimestamp(float(epoch), UTC)
        if target == "queued":
            queued = at
        elif target == "running":
            begun, number = at, number + 1
        elif begun is not None:
            tone = "green" if target == "succeeded" else "grey" if target == "cancelled" else "red"
            attempt = by_number.get(number)
            words = look(attempt.outcome if attempt else str(target)).label
            took = duration((at - begun).total_seconds())
            found.append(
                charts.Stretch(f"#{number}", queued or waits, begun, at, tone,
                               _("attempt %(n)d: %(what)s after %(took)s")
                               % {"n": number, "what": words, "took": took})
            )  # fmt: skip
            begun, queued = None, None
    return charts.waterfall(found[-12:])


def _attempt(attempt: Any, newest: bool) -> dict[str, Any]:
    took = (attempt.ended_at - attempt.started_at).total_seconds() if attempt.started_at else None
    return {
        "a": attempt,
        "open": newest,
        "took": duration(took),
        "own": own_frames(attempt.traceback),
    }


def own_frames(trace: str) -> str:
    """The traceback without the frames of libraries, where any are left."""
    lines, kept, skip = trace.splitlines(), list[str](), False
    for line in lines:
        if line.startswith("  File "):
            skip = _FOREIGN.search(line) is not None
        elif not line.startswith("   "):
            skip = False
        if not skip:
            kept.append(line)
    return "\n".join(kept) if any(line.startswith("  File ") for line in kept) else trace


def _moves(job: Job) -> list[dict[str, Any]]:
    moves = [
        {"at": m[0], "to": str(m[2]), "look": look(str(m[2])), "by": m[3] or "", "why": m[4] or ""}
        for m in job.history
    ]
    if job.history_dropped:
        moves.insert(8, {"dropped": job.history_dropped})
    return moves[::-1]


def _facts(request: HttpRequest, site: str, job: Job, lease: Lease | None) -> list[tuple[Any, ...]]:
    """Name, value, and how the value is shown."""
    handler = registry.find(job.kind)
    url = reverse
    facts: list[tuple[Any, ...]] = [
        (_("Queue"), job.queue, "link", url(f"{site}:jobs_queue_change", args=[job.queue])),
        (_("Failures"), _("%(n)d of %(m)d") % {"n": job.failures, "m": job.max_attempts}),
        (_("Attempts begun"), job.attempt), (_("Priority"), job.priority),
        (_("Created"), job.created_at, "time"), (_("Due"), job.run_at, "time"),
        (_("Started"), job.started_at, "time"), (_("Ended"), job.finished_at, "time"),
        (_("Expires"), job.expires_at, "time"), (_("Tenant"), job.tenant, "mono"),
        (_("Worker"), lease.worker if lease else "", "mono"),
        (_("Timeout"), duration(job.timeout)),
        (_("Unique key"), job.unique_key, "mono"), (_("Exclusive key"), job.exclusive_key, "mono"),
        (_("Limit key"), job.limit_key, "mono"), (_("Correlation"), job.correlation_id, "mono"),
        (_("Crashes"), job.crashes or None), (_("Releases"), job.releases or None),
        (_("Preempted"), job.preemptions or None),
        (_("Cancel asked by"), job.cancel_by), (_("Cancel reason"), job.cancel_reason),
        (_("Tags"), list(job.tags), "tags"),
    ]  # fmt: skip
    keep = handler.keep(job.state) if handler is not None else None
    if job.finished_at is not None and keep is not None and keep.time is not None:
        facts.append((_("Kept until"), job.finished_at + keep.time, "time"))
    return [(*fact, "", "")[:4] for fact in facts if fact[1] not in (None, "", [])]


def _related(request: HttpRequest, site: str, job: Job) -> list[dict[str, Any]]:
    """What belongs to it: name, link, state."""
    found: list[dict[str, Any]] = []

    def add(what: Any, text: object, model: str, key: object, state: str = "") -> None:
        url = reverse(f"{site}:jobs_{model}_change", args=[key])
        found.append({"what": what, "text": text, "url": url, "state": state})

    kin = {job.parent_id: _("Parent"), job.replay_of: _("Replay of"),
           job.replayed_by: _("Replayed by"), job.preempted_by: _("Makes way for")}  # fmt: skip
    links = sql.rows(
        "SELECT parent_id, child_id FROM jobs_dependency WHERE child_id = %s "
        "UNION ALL SELECT parent_id, child_id FROM jobs_dependency WHERE parent_id = %s LIMIT 20",
        [job.pk, job.pk],
    )
    for parent, child in links:
        kin[parent if child == job.pk else child] = (
            _("Waits for") if child == job.pk else _("Waited for by")
        )
    rows = visible(request, Job.objects.using(sql.alias()).only(
        "id", "kind", "state", "wait", "failures", "cancel_requested_at"))  # fmt: skip
    for other in rows.filter(pk__in=[key for key in kin if key]):
        add(kin[other.pk], other.kind, "job", other.pk, shown_state(other))
    if job.batch_id and (batch := Batch.objects.using(sql.alias()).filter(pk=job.batch_id).first()):
        add(_("Batch"), batch, "batch", batch.pk, str(batch.state))
    if job.schedule_id:
        for schedule in Schedule.objects.using(sql.alias()).filter(pk=job.schedule_id):
            add(_("Schedule"), schedule.name, "schedule", schedule.pk)
    for letter in DeadLetter.objects.using(sql.alias()).filter(job_id=job.pk).order_by("-id")[:5]:
        add(
            _("Dead letter"), letter.summary or letter.reason, "deadletter", letter.pk, letter.state
        )
    for effect in Effect.objects.using(sql.alias()).filter(job_id=job.pk)[:10]:
        add(_("Effect"), effect.key, "effect", effect.pk, effect.state)
    for event in Outbox.objects.using(sql.alias()).filter(
        key=f"job:{job.pk}", tenant=job.tenant, state__in=["failed", "parked"]
    )[:5]:
        add(_("Event"), event.topic, "outbox", event.pk, event.state)
    return found


def _same_kind(job: Job) -> dict[str, Any]:
    """How attempts of the kind ended in the last day."""
    [(now,)] = sql.rows("SELECT jobs_clock()")
    day, hour = timedelta(days=1), timedelta(hours=1)
    points = stats.series(now - day, now, step=hour, kind=job.kind)[""]
    done = [p.counts.get("succeeded", 0) for p in points]
    bad = [p.counts.get("failed", 0) + p.counts.get("retried", 0) for p in points]
    whole = stats.total(points)
    return {
        "done": charts.spark(done, _("%(n)d succeeded in the last 24 hours") % {"n": sum(done)}),
        "bad": charts.spark(bad, _("%(n)d failed in the last 24 hours") % {"n": sum(bad)}, "red"),
        "done_sum": sum(done),
        "bad_sum": sum(bad),
        "p50": duration(whole.p50),
        "p95": duration(whole.p95),
    }


def _log_url(job: Job) -> str:
    """The host's page of the job's log lines, where it has one."""
    template = conf.settings().LOG_URL_TEMPLATE
    return template.format(
        job_id=quote(str(job.pk), safe=""),
        kind=quote(job.kind, safe=""),
        correlation_id=quote(job.correlation_id, safe=""),
    )
