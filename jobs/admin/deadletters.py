"""Dead letters: what died of the same cause together, and each with its job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import conf, registry
from jobs.admin import charts, jobpage, tables
from jobs.admin.access import principal, visible
from jobs.admin.acting import named
from jobs.admin.actions import Act, Button, Reason, confirm
from jobs.admin.base import PlatformAdmin
from jobs.admin.causeacts import CauseRow, cause_acts
from jobs.admin.components import Capped, badge, duration, number
from jobs.admin.copying import api, cli
from jobs.admin.fields import Words
from jobs.admin.jobforms import JobRetryForm, one_of_both, replayed
from jobs.admin.recent import recent_acts
from jobs.admin.words import REASONS
from jobs.engine import sql
from jobs.errors import JobsError, UnknownTarget
from jobs.models import DeadLetter, Job
from jobs.operate import causes, search, stats

MANY = 5
"""Dead letters of one hour, below which no hour is unusual."""
STATES = ("open", "retried", "replayed", "discarded", "expired")


def _closed(request: HttpRequest, letter: DeadLetter) -> str:
    return "" if letter.state == "open" else _("It has been decided already.")


def _not_replayable(request: HttpRequest, letter: DeadLetter) -> str:
    handler = registry.find(letter.kind)
    if handler is not None and not handler.replayable:
        return _("Its kind forbids replays.")
    return _closed(request, letter)


class LetterReplay(Reason):
    """The payload may be mended."""

    words = {
        "payload_patch": Words(
            gettext_lazy("Fields of the payload to change, as JSON"),
            gettext_lazy("Like {“to”: “ada@example.org”}; null takes a field away."),
            shown=lambda form: not registry.is_internal(form.row.kind),
        )
    }


ACTS = (
    Act("retry", gettext_lazy("Retry…"), None, _closed,
        lambda request, row: [_("The same job runs again, with its payload and its id."),
                      _("The dead letter is closed as retried.")], JobRetryForm, "primary",
        gettext_lazy("The job waits for its next attempt."), given=one_of_both,
        verb="deadletter.retry"),
    Act("replay", gettext_lazy("Replay as new…"), None, _not_replayable,
        lambda request, row: [_("A new job is made with the same payload; both are linked."),
                      _("The dead letter is closed as replayed.")], LetterReplay,
        show=replayed, verb="deadletter.replay"),
    Act("discard", gettext_lazy("Discard…"), None, _closed,
        lambda request, row: [_("The job stays failed; the dead letter is closed."),
                      _("The job itself can still be retried later.")], tone="danger",
        verb="deadletter.discard",
        done=gettext_lazy("The dead letter is discarded.")),
)  # fmt: skip


@admin.register(DeadLetter)
class DeadLetterAdmin(PlatformAdmin):
    """What waits for somebody's decision."""

    list_template = "jobs/admin/deadletters.html"
    page_template = "jobs/admin/deadletter.html"
    nouns = ("deadletter",)
    acts = ACTS

    def get_urls(self) -> list[Any]:
        wrap: Callable[..., Any] = self.admin_site.admin_view
        return [
            path("cause/<str:fingerprint>/do/<slug:name>/", wrap(self.cause_view),
                 name="jobs_cause_act"),
            *super().get_urls(),
        ]  # fmt: skip

    def cause_view(self, request: HttpRequest, fingerprint: str, name: str) -> HttpResponseBase:
        act = named(cause_acts(), name)
        self.check_view(request)
        try:
            cause = causes.find(fingerprint, by=principal(request))
        except UnknownTarget as error:
            raise Http404 from error
        subject = CauseRow(cause)
        return confirm(self, request, act, subject, {"jd_crumbs": self.crumbs()})

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        site = self.admin_site.name
        state = request.GET.get("state", "open")
        state = state if state in STATES else "open"
        rows = visible(request, DeadLetter.objects.using(sql.alias()).filter(state=state))
        cause = request.GET.get("cause", "")
        if cause:
            rows = rows.filter(fingerprint__in=cause.split(",")[:20])
        found = tables.page(request, rows.defer("history"), "-opened_at", "-id")
        listed = [
            {"letter": d, "url": self.page_url(d.pk),
             "job": reverse(f"{site}:jobs_job_change", args=[d.job_id]),
             "reason": REASONS.get(d.reason, d.reason), "buttons": self.buttons(request, d, d.pk)}
            for d in found["rows"]
        ]  # fmt: skip
        grouped = self._causes(request, cause)
        one = cause and grouped and grouped[0]["cause"].sample[:200]
        return {
            **found,
            "title": _("Dead letters"),
            **({"title": one, "jd_crumbs": self.crumbs()} if one else {}),
            "rows": listed,
            "state": state,
            "cause": cause,
            "causes": grouped,
            "hidden": [] if cause else self._decided(request),
            "health": None
            if cause or not principal(request).scope.is_everything
            else _health(request),
            "states": [{"name": s, "on": s == state} for s in STATES],
            "jd_regions": {"jd-letters": "jobs/admin/parts/deadletters.html"},
            "api": api("deadletter_list"),
            "cli": cli("dead-letters", "list"),
        }

    def _causes(self, request: HttpRequest, wanted: str) -> list[dict[str, Any]]:
        if wanted:
            try:
                return [self._cause(request, causes.find(wanted, by=principal(request)))]
            except JobsError:  # of several, or of none
                return []
        listed = causes.every("open", by=principal(request), limit=30)
        return [self._cause(request, cause) for cause in listed if cause.open]

    def _decided(self, request: HttpRequest) -> list[dict[str, Any]]:
        listed = causes.every("ignored", "resolved", by=principal(request), limit=10)
        return [self._cause(request, cause) for cause in listed]

    def _cause(self, request: HttpRequest, cause: causes.Cause) -> dict[str, Any]:
        error, _colon, message = cause.sample.partition(": ")
        site = self.admin_site.name
        back = request.path
        return {
            "cause": cause,
            "error": error,
            "message": message,
            "open": Capped(cause.open, cause.open >= causes.OPEN_LIMIT),
            "kinds": sorted(cause.kinds.items(), key=lambda item: -item[1]),
            "url": f"{self.list_url()}?cause={cause.fingerprint}",
            "buttons": [
                Button.of(act, request, cause, reverse(
                    f"{site}:jobs_cause_act", args=[cause.fingerprint, act.name]), back)
                for act in cause_acts()
                if act.name == "note" or (act.name == "reopen") == (cause.state != "open")
            ],
        }  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        if not key.isascii() or not key.isdigit() or len(key) > 18:
            return None
        rows = visible(request, DeadLetter.objects.using(sql.alias()).all())
        return rows.filter(pk=int(key)).first()

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        site = self.admin_site.name
        job = search.one(row.job_id, by=principal(request))
        data = jobpage.build(request, site, job) if isinstance(job, Job) else {}
        return {
            **data,
            "title": row.kind,
            "letter": row,
            "reason": REASONS.get(row.reason, row.reason),
            "letter_moves": jobpage._moves(row),
            "job_url": reverse(f"{site}:jobs_job_change", args=[row.job_id]),
            "earlier": [
                {"letter": d, "url": self.page_url(d.pk)}
                for d in DeadLetter.objects.using(sql.alias()).filter(job_id=row.job_id)
                .exclude(pk=row.pk).order_by("-id")[:10]
            ],
            "acts": recent_acts(request, site, target_kind="deadletter", target_id=str(row.pk)),
            "buttons": self.buttons(request, row, row.pk),
            "jd_regions": {"jd-letter": "jobs/admin/parts/deadletter.html"},
        }  # fmt: skip


def _health(request: HttpRequest) -> dict[str, Any]:
    """How old the oldest open one is, how many came in the last day, by the hour."""
    [(now,)] = sql.rows("SELECT jobs_clock()")
    rows = visible(request, DeadLetter.objects.using(sql.alias()).filter(state="open"))
    oldest = rows.order_by("expires_at").values_list("opened_at", flat=True).first()
    points = stats.series(now - timedelta(days=1), now, step=timedelta(hours=1), durations=False)[
        ""
    ]
    letters = [point.letters for point in points]
    day, hour = sum(letters), sum(letters[-2:])  # the last point is what is left of a minute
    words = _("%(n)s dead letters in the last 24 hours") % {"n": number(day)}
    return {
        "verdict": verdict(oldest is not None, hour, day),
        "oldest": oldest,
        "inflow": number(day),
        "hour": number(hour),
        "spark": charts.spark(letters, words, "red"),
        "kept": duration(conf.settings().DEAD_LETTER_RETENTION.total_seconds()),
    }


def verdict(any_open: bool, hour: int, day: int) -> SafeString:
    """Whether somebody should look: how the last hour compares with those before it."""
    if hour >= MANY and hour > 3 * (day - hour) / 23:
        return badge("late", _("More than usual"))
    if not any_open:
        return badge("resolved", _("Nothing waits"))
    return badge("retrying", _("Some came in")) if hour else badge("idle", _("None came in"))
