"""Limits on the page of a queue: set for good or for a time, ended, given back to the code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import registry
from jobs.admin.actions import Act, Reason
from jobs.admin.fields import Words
from jobs.engine import sql
from jobs.models import Limiter
from jobs.models.clock import Clock


def scopes_of(queue: str) -> list[str]:
    """What on the page of a queue can have a limit: the queue, and the kinds that go there."""
    kinds = sorted(h.kind for h in registry.handlers() if h.queue == queue)
    return [f"queue:{queue}", *(f"kind:{kind}" for kind in kinds)]


def limits_of(request: HttpRequest, queue: str) -> list[Limiter]:
    """The limits in force there; asked for once while a page is made."""
    known: dict[str, list[Limiter]] = request.__dict__.setdefault("_jobs_limits", {})
    if queue not in known:
        found = Limiter.objects.using(sql.alias()).filter(scope__in=scopes_of(queue))
        known[queue] = list(found.order_by("scope")[:50])
    return known[queue]


def _known(form: Any) -> dict[str, str]:
    return {scope: scope for scope in form.known()}


class ScopeForm(Reason):
    """Which of them."""

    verb = "limit.set"
    words = {"scope": Words(gettext_lazy("Scope"), choices=_known)}

    def known(self) -> Sequence[str]:
        return scopes_of(self.row.pk)


class LimitForm(ScopeForm):
    """How many at once, how many in a time, and until when."""

    words = {
        **ScopeForm.words,
        "at_once": Words(gettext_lazy("At once")),
        "rate": Words(
            gettext_lazy("Rate"),
            gettext_lazy("Like 100/s, 30/m or 5/h; without both there is no limit."),
        ),
        "burst": Words(
            gettext_lazy("Burst"),
            gettext_lazy("This many may start at once before the rate applies."),
        ),
        "until": Words(
            gettext_lazy("Until"),
            gettext_lazy("Then what held before holds again; empty means for good."),
        ),
    }


class OverrideForm(ScopeForm):
    def known(self) -> Sequence[str]:
        return [
            m.scope for m in limits_of(self.request, self.row.pk) if m.override_until is not None
        ]


class ByHandForm(ScopeForm):
    def known(self) -> Sequence[str]:
        return [m.scope for m in limits_of(self.request, self.row.pk) if not m.is_declared]


class ClosedForm(ScopeForm):
    def known(self) -> Sequence[str]:
        return [m.scope for m in closed_of(self.row.pk)]


def closed_of(queue: str) -> list[Limiter]:
    """What is closed for a time on the page of a queue: itself, its kinds, and their keys."""
    kinds = [h.kind for h in registry.handlers() if h.queue == queue]
    rows = Limiter.objects.using(sql.alias()).filter(closed_until__gt=Clock())
    mine = Q(scope__in=scopes_of(queue)) | Q(kind__in=kinds, key__isnull=False)
    return list(rows.filter(mine).order_by("scope")[:50])


def _nothing_closed(request: HttpRequest, queue: Any) -> str:
    return "" if closed_of(queue.pk) else _("Nothing is closed for a time.")


def _no_override(request: HttpRequest, queue: Any) -> str:
    if any(m.override_until is not None for m in limits_of(request, queue.pk)):
        return ""
    return _("No limit is overridden for a time.")


def _none_by_hand(request: HttpRequest, queue: Any) -> str:
    if any(not m.is_declared for m in limits_of(request, queue.pk)):
        return ""
    return _("No limit has been set by hand.")


ACTS = (
    Act("limit", gettext_lazy("Limit…"), form=LimitForm, verb="limit.set",
        done=gettext_lazy("The limit holds."),
        consequences=lambda r, q: [_("It holds at once, whatever code declares."),
                                   _("What runs already runs on.")]),
    Act("end-override", gettext_lazy("End override…"), None, _no_override,
        done=gettext_lazy("What held before holds again."),
        form=OverrideForm, verb="limit.end_override"),
    Act("reopen-limit", gettext_lazy("Reopen…"), None, _nothing_closed,
        done=gettext_lazy("It starts again."),
        form=ClosedForm, verb="limit.reopen"),
    Act("remove-limit", gettext_lazy("Remove limit…"), None, _none_by_hand,
        done=gettext_lazy("The limit is what code declares, or none."),
        form=ByHandForm, verb="limit.remove"),
)  # fmt: skip
