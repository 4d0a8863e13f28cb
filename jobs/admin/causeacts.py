"""What is done with a cause: with all dead letters that died of it, or with the cause itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobs.admin import bulks
from jobs.admin.access import principal
from jobs.admin.actions import Act, NoteForm, Reason
from jobs.admin.components import number
from jobs.admin.declared import offered
from jobs.admin.fields import Words
from jobs.operate import causes


def _none_open(request: HttpRequest, cause: causes.Cause) -> str:
    return "" if cause.open else _("No dead letter of it is open.")


def _not_state(*states: str) -> Callable[[HttpRequest, Any], str]:
    def why(request: HttpRequest, cause: causes.Cause) -> str:
        return "" if cause.state in states else _("It has been decided about already.")

    return why


def _all(verb: Any) -> Any:
    def run(request: HttpRequest, cause: causes.Cause, given: dict[str, Any]) -> tuple[str, str]:
        made = verb(cause.fingerprint, by=principal(request), reason=given["reason"])
        return bulks.begun(request, made)

    return run


def _concerned(request: HttpRequest, cause: causes.Cause) -> Sequence[Any]:
    words = ngettext("It concerns %(n)s open dead letter.", "It concerns %(n)s open dead letters.",
                     cause.open) % {"n": number(cause.open)}  # fmt: skip
    kinds = ", ".join(f"{kind}: {number(n)}" for kind, n in cause.kinds.items())
    return [words, _("Kinds, ever: %(kinds)s") % {"kinds": kinds},
            _("A bulk operation does it, which can be followed and aborted.")]  # fmt: skip


class IgnoreForm(Reason):
    """For how long."""

    words = {
        "until": Words(gettext_lazy("Until"), gettext_lazy("Leave empty to reopen it manually."))
    }


def _ignore_means(request: HttpRequest, cause: causes.Cause) -> Sequence[Any]:
    return [_("It leaves the list of open causes; its dead letters stay as they are."),
            _("After that time it is open again as soon as another job dies of it.")]  # fmt: skip


CAUSE_ACTS = (
    Act("retry", gettext_lazy("Retry all…"), _all(causes.retry_all),
        _none_open, _concerned, tone="primary", verb="cause.retry_all"),
    Act("replay", gettext_lazy("Replay all as new…"),
        _all(causes.replay_all), _none_open, _concerned, verb="cause.replay_all"),
    Act("discard", gettext_lazy("Discard all…"), _all(causes.discard_all),
        _none_open, _concerned, tone="danger", verb="cause.discard_all"),
    Act("ignore", gettext_lazy("Ignore…"), None,
        _not_state("open", "ignored"), _ignore_means, IgnoreForm, verb="cause.ignore"),
    Act("resolve", gettext_lazy("Mark resolved…"), None, _not_state("open", "ignored"),
        lambda r, c: [_("It opens again by itself when it comes back.")],
        verb="cause.resolve"),
    Act("reopen", gettext_lazy("Reopen…"), None,
        _not_state("ignored", "resolved"), verb="cause.reopen"),
    Act("note", gettext_lazy("Note…"),
        form=NoteForm, submit=gettext_lazy("Save"), verb="cause.note"),
)  # fmt: skip


class CauseRow:
    """A cause as the subject of a page that asks."""

    def __init__(self, cause: causes.Cause) -> None:
        self.cause, self.pk = cause, cause.fingerprint

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cause, name)

    def __str__(self) -> str:
        return self.cause.sample


def cause_acts() -> list[Act]:
    """Return what can be done with a cause, as far as its verbs are declared."""
    return offered(CAUSE_ACTS, (), new=False)
