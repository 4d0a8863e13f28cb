"""What is asked about one job before it is retried, replayed or shown in clear."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest
from django.http.response import HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import registry
from jobs.admin import sites
from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Reason, offer, site_of
from jobs.admin.components import pretty
from jobs.admin.fields import LARGEST, Words
from jobs.errors import InvalidOption
from jobs.operate import shown
from jobs.operate.permissions import VIEW_PAYLOAD
from jobs.states import JobState


class JobRetryForm(Reason):
    """How often it may fail from now on, and when it begins."""

    words = {
        "attempts": Words(
            gettext_lazy("Attempts"),
            gettext_lazy("This many more failures are allowed."),
            initial=1,
        ),
        "reset": Words(
            gettext_lazy("With its whole budget of attempts again"),
            gettext_lazy("Instead of a number of attempts."),
        ),
        "at": Words(gettext_lazy("Not before"), gettext_lazy("Empty means now.")),
    }


def one_of_both(request: HttpRequest, row: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return no number of attempts where the whole budget is wanted."""
    return {"attempts": None} if given["reset"] else {}


class ReplayForm(Reason):
    """Who replays what has succeeded says that he knows what that means."""

    same = forms.BooleanField(
        label=gettext_lazy("I know that its outside effects may happen again"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.row is None or self.row.state != JobState.SUCCEEDED:
            del self.fields["same"]


HOWS = {
    "same": gettext_lazy("as it is"),
    "patch": gettext_lazy("with these fields changed (null takes one away)"),
    "whole": gettext_lazy("with this payload instead"),
}


class EditedReplayForm(ReplayForm):
    """A replay with a payload that may be edited.

    A payload with hidden fields can only be patched: what is hidden would be lost otherwise.
    """

    words = {
        "payload": Words(
            gettext_lazy("JSON"),
            initial=lambda form: whole_payload(form.request, form.row),
            shown=lambda form: form.row is None or not registry.is_internal(form.row.kind),
        )
    }
    how = forms.ChoiceField(
        label=gettext_lazy("Payload"), choices=list(HOWS.items()), initial="same", required=False
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "payload" not in self.fields:
            self.fields.pop("how")
        elif self.fields["payload"].initial is None:
            offer(self, "how").choices = [(n, w) for n, w in HOWS.items() if n != "whole"]
            self.fields["payload"].help_text = _(
                "Parts of the payload are not shown to you, so only single fields can be changed."
            )


def edited(request: HttpRequest, job: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the payload, or what is changed of it."""
    how, content = given.get("how") or "same", given.get("payload")
    if how == "same":
        return {"payload": None}
    if not isinstance(content, dict):
        raise InvalidOption("payload", _("must be a JSON object"))
    return {"payload": content} if how == "whole" else {"payload": None, "payload_patch": content}


def whole_payload(request: HttpRequest | None, job: Any) -> str | None:
    """The payload as text, if the caller may see all of it."""
    if request is None or job is None or missing(request, VIEW_PAYLOAD):
        return None
    public = shown.public_payload(job)
    text = pretty(public, LARGEST + 1)
    return text if public == job.payload and len(text) <= LARGEST else None


def replayed(request: HttpRequest, row: Any, new: UUID) -> tuple[str, str]:
    """Return what to say about the new job, and its page."""
    return _("A new job is made."), job_url(request, new)


def job_url(request: HttpRequest, job_id: object) -> str:
    """The page of the job."""
    return reverse(f"{site_of(request)}:jobs_job_change", args=[job_id])


def _reveal(request: HttpRequest, job: Any, given: dict[str, Any]) -> HttpResponse:
    data = shown.reveal_payload(job.pk, by=principal(request), reason=given["reason"])
    return told_once(request, _("Payload in clear"), job, pretty(data, LARGEST),
                     job_url(request, job.pk))  # fmt: skip


REVEAL = Act(
    "reveal", gettext_lazy("Show in clear…"), _reveal,
    consequences=lambda r, j: [_("Protected fields are shown once, on the next page only."),
                               _("Your name and the reason are kept in the audit.")],
    verb="job.reveal_payload",
)  # fmt: skip


def told_once(
    request: HttpRequest, title: str, subject: object, text: str, back: str, words: str = ""
) -> HttpResponse:
    """A page with a text that no cache and no history keeps."""
    from jobs.admin.base import MEDIA

    data = {
        **sites.current(request).each_context(request), "media": MEDIA, "jd_site": site_of(request),
        "title": title, "subject": subject, "text": text, "words": words, "back": back,
        "is_fullwidth": True,
    }  # fmt: skip
    answer = TemplateResponse(request, "jobs/admin/told_once.html", data)
    answer["Cache-Control"] = "no-store"
    return answer
