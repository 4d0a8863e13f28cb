"""Limits on the page of a queue: set for good or for a time, ended, given back to the code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import registry
from jobs.admin.access import principal
from jobs.admin.actions import Act, Reason, When, offer
from jobs.engine import sql
from jobs.models import Limiter
from jobs.operate import queues


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


class ScopeForm(Reason):
    """Which of them."""

    scope = forms.ChoiceField(label=gettext_lazy("Scope"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "scope").choices = [(s, s) for s in self.known()]

    def known(self) -> Sequence[str]:
        return scopes_of(self.row.pk)


class LimitForm(ScopeForm):
    """How many at once, how many in a time, and until when."""

    at_once = forms.IntegerField(
        label=gettext_lazy("At once"), required=False, min_value=1, max_value=1_000_000
    )
    rate = forms.CharField(
        label=gettext_lazy("Rate"), required=False, max_length=40,
        help_text=gettext_lazy("Like 100/s, 30/m or 5/h; without both there is no limit."),
    )  # fmt: skip
    burst = forms.FloatField(
        label=gettext_lazy("Burst"), required=False, min_value=1,
        help_text=gettext_lazy("So many may start at once before the rate counts."),
    )  # fmt: skip
    until = When(
        label=gettext_lazy("Until"),
        help_text=gettext_lazy("Then what held before holds again; empty means for good."),
    )


class OverrideForm(ScopeForm):
    def known(self) -> Sequence[str]:
        return [
            m.scope for m in limits_of(self.request, self.row.pk) if m.override_until is not None
        ]


class ByHandForm(ScopeForm):
    def known(self) -> Sequence[str]:
        return [m.scope for m in limits_of(self.request, self.row.pk) if not m.is_declared]


def _set(request: HttpRequest, queue: Any, given: dict[str, Any]) -> str:
    queues.set_limit(
        given["scope"], by=principal(request), reason=given["reason"], at_once=given["at_once"],
        rate=given["rate"] or None, burst=given["burst"], until=given["until"],
    )  # fmt: skip
    return _("The limit holds.")


def _end(request: HttpRequest, queue: Any, given: dict[str, Any]) -> str:
    queues.end_override(given["scope"], by=principal(request), reason=given["reason"])
    return _("What held before holds again.")


def _remove(request: HttpRequest, queue: Any, given: dict[str, Any]) -> str:
    queues.remove_limit(given["scope"], by=principal(request), reason=given["reason"])
    return _("The limit is what code declares, or none.")


def _no_override(request: HttpRequest, queue: Any) -> str:
    if any(m.override_until is not None for m in limits_of(request, queue.pk)):
        return ""
    return _("No limit is overridden for a time.")


def _none_by_hand(request: HttpRequest, queue: Any) -> str:
    if any(not m.is_declared for m in limits_of(request, queue.pk)):
        return ""
    return _("Nobody has set a limit by hand.")


ACTS = (
    Act("limit", gettext_lazy("Limit…"), "edit_queue", _set, form=LimitForm, verb="limit.set",
        consequences=lambda r, q: [_("It holds at once, whatever code declares."),
                                   _("What runs already runs on.")]),
    Act("end-override", gettext_lazy("End override…"), "edit_queue", _end, _no_override,
        form=OverrideForm, verb="limit.end_override"),
    Act("remove-limit", gettext_lazy("Remove limit…"), "edit_queue", _remove, _none_by_hand,
        form=ByHandForm, verb="limit.remove"),
)  # fmt: skip
