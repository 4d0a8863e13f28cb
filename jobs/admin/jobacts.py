"""What can be done with a job, and what each of it means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import registry
from jobs.admin.access import principal
from jobs.admin.actions import Act, Reason
from jobs.admin.fields import Words
from jobs.admin.jobforms import (
    REVEAL,
    EditedReplayForm,
    JobRetryForm,
    edited,
    one_of_both,
    replayed,
)
from jobs.operate import edit
from jobs.operate.cancel import Cancelled
from jobs.states import FINAL_STATES, RETRYABLE_STATES, JobState


class CancelForm(Reason):
    words = {
        "force": Words(
            gettext_lazy("End its process when it does not stop"),
            gettext_lazy("Only matters for a running job, after the grace time."),
        )
    }


class EditForm(Reason):
    of_row = True
    words = {
        "queue": Words(gettext_lazy("Queue")),
        "priority": Words(gettext_lazy("Priority")),
        "run_at": Words(
            gettext_lazy("Due"),
            gettext_lazy("Empty leaves it as it is."),
            initial=lambda form: None,
        ),
        "max_attempts": Words(gettext_lazy("Attempts")),
    }


def _not_retryable(request: HttpRequest, job: Any) -> str:
    if job.state in RETRYABLE_STATES:
        return ""
    if job.state == JobState.SUCCEEDED:
        return _("It has succeeded; replay it to run it again.")
    return _("Only failed, cancelled and expired jobs can be retried.")


def _not_replayable(request: HttpRequest, job: Any) -> str:
    if job.state not in FINAL_STATES:
        return _("It has not ended yet.")
    handler = registry.find(job.kind)
    if handler is None:
        return _("No handler is registered for its kind.")
    return "" if handler.replayable else _("Its kind forbids replays.")


def _not_cancellable(request: HttpRequest, job: Any) -> str:
    if job.state in FINAL_STATES:
        return _("It has ended already.")
    if job.cancel_requested_at is not None and job.cancel_forced:
        return _("It has been asked to stop already.")
    return ""


def _cancelled(request: HttpRequest, job: Any, done: Cancelled) -> str:
    return _("The job was asked to stop.") if done.requested else _("The job is cancelled.")


def _edit(request: HttpRequest, job: Any, given: dict[str, Any]) -> str:
    wanted = {name: given[name] for name in ("queue", "priority", "run_at", "max_attempts")}
    changes = {
        name: value
        for name, value in wanted.items()
        if value not in (None, "") and value != getattr(job, name)
    }
    edit.edit(job.pk, by=principal(request), reason=given["reason"], **changes)
    return _("The job is changed.")


def _not_waiting(request: HttpRequest, job: Any) -> str:
    if job.state == JobState.PENDING and job.wait == 1:
        return ""
    return _("It does not wait for its time.")


def _not_editable(request: HttpRequest, job: Any) -> str:
    if job.state not in edit.EDITABLE:
        return _("It has begun or ended.")
    return _("Its kind is internal.") if registry.is_internal(job.kind) else ""


def _retry_means(request: HttpRequest, job: Any) -> Sequence[Any]:
    found = [_("The same job runs again, with its payload and its id.")]
    if job.state == JobState.FAILED:
        found.append(_("Its open dead letter is closed as retried."))
    if job.batch_id:
        found.append(_("Its batch is under way again."))
    return found


def _edit_means(request: HttpRequest, job: Any) -> Sequence[Any]:
    if job.state == JobState.QUEUED:
        return [_("It is queued already: it goes back and waits to be dispatched again.")]
    return []


def _replay_means(request: HttpRequest, job: Any) -> Sequence[Any]:
    return [
        _("A new job is made with its payload, as it is or edited; both are linked."),
        _("This job stays as it is."),
    ]


def _cancel_means(request: HttpRequest, job: Any) -> Sequence[Any]:
    if job.state == JobState.RUNNING:
        return [
            _("It is asked to stop, and does at its next checkpoint."),
            _("If it finishes first, it has succeeded."),
        ]
    return [_("It will never run unless it is retried."),
            _("Jobs that wait for it follow their own rule: cancelled, waiting or running on.")]  # fmt: skip  # noqa: E501


ACTS = (
    Act("retry", gettext_lazy("Retry…"), None, _not_retryable, _retry_means,
        JobRetryForm, "primary", gettext_lazy("The job waits for its next attempt."),
        given=one_of_both, verb="job.retry"),
    Act("replay", gettext_lazy("Replay as new…"), None, _not_replayable,
        _replay_means, EditedReplayForm, given=edited, show=replayed, verb="job.replay"),
    Act("run-now", gettext_lazy("Run now…"), None, _not_waiting,
        lambda r, j: [_("It is due now; pauses, limits and its place in line stay in force.")],
        verb="job.run_now", done=gettext_lazy("The job is due now.")),
    Act("edit", gettext_lazy("Edit…"), _edit, _not_editable,
        _edit_means, EditForm, submit=gettext_lazy("Save"), verb="job.edit"),
    Act("cancel", gettext_lazy("Cancel…"), None, _not_cancellable, _cancel_means,
        CancelForm, "danger", show=_cancelled, verb="job.cancel"),
    REVEAL,
)  # fmt: skip
