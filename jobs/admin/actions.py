"""What people do on pages: a button that is live or says why not, a page that asks, one call.

The permission and the state are asked again by the verb in ``jobs.operate``; what pages show is
only a courtesy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.access import missing, principal
from jobs.admin.refusals import in_words
from jobs.errors import Denied, JobsError
from jobs.operate import acts

if TYPE_CHECKING:
    from jobs.admin.acting import Acting


class Reason(forms.Form):
    """Every act asks why."""

    template_name = "jobs/admin/parts/form.html"
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("Kept in the audit with your name."),
    )

    def __init__(self, *args: Any, row: Any = None, request: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row, self.request = row, request
        self.order_fields([name for name in self.fields if name != "reason"])

    def to_look_at(self) -> Sequence[Any]:
        """What a valid form would do, where that is to be looked at before it is done."""
        return ()


class LookedAt(Reason):
    """Says first what it would do, and does it when the same is sent again."""

    seen = forms.CharField(required=False, widget=forms.HiddenInput, max_length=100)

    def look(self, given: dict[str, Any]) -> Sequence[Any]:
        """What it would do, line by line; a JobsError says what is wrong.

        Where that is nothing worth a look, it is done at once.
        """
        return ()

    def to_look_at(self) -> Sequence[Any]:
        given = {n: v for n, v in self.cleaned_data.items() if n not in ("seen", "reason")}
        lines = self.look(given)
        mark = hashlib.sha256(repr((sorted(given.items()), lines)).encode()).hexdigest()
        if self.cleaned_data["seen"] == mark:
            return ()
        data = cast("QueryDict", self.data).copy()
        data["seen"] = mark
        self.data = data
        return lines


def _always(request: HttpRequest, row: Any) -> str:
    return ""


def _nothing(request: HttpRequest, row: Any) -> Sequence[Any]:
    return ()


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that can be done with a row, or with None to make one."""

    name: str
    label: Any
    permission: str
    run: Callable[[HttpRequest, Any, dict[str, Any]], Any]
    """Does it with the form's values; may answer what to say, (what to say, where to go), or a
    page of its own."""
    forbidden: Callable[[HttpRequest, Any], str] = _always
    """Why the state of the row does not allow it; nothing where it does."""
    consequences: Callable[[HttpRequest, Any], Sequence[Any]] = _nothing
    """What will follow, line by line."""
    form: type[Reason] = Reason
    tone: str = ""
    """``primary`` or ``danger``."""
    done: Any = ""
    """What to say afterwards, where ``run`` says nothing."""
    template: str = "jobs/admin/confirm.html"
    verb: str = ""
    """As ``jobs.operate.verbs`` and the audit call it, where the act is one of the platform's."""
    submit: Any = ""
    """What the button that does it says, where that is not the label."""


class When(forms.DateTimeField):
    """A moment, in the time zone of whoever types it."""

    def __init__(self, **given: Any) -> None:
        given.setdefault("required", False)
        widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
        super().__init__(widget=widget, **given)


class Until(Reason):
    until = When(
        label=gettext_lazy("Until"),
        help_text=gettext_lazy("Goes on by itself then; empty means until somebody resumes it."),
    )


class NoteForm(Reason):
    """The note that everybody sees beside the row; it is its own reason."""

    note = forms.CharField(
        label=gettext_lazy("Note"), required=False, max_length=500,
        help_text=gettext_lazy("Empty takes it away."),
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["reason"]
        self.fields["note"].initial = getattr(self.row, "note", "")


def offer(form: forms.Form, name: str) -> forms.ChoiceField:
    """The form's field of this name, which is one of choices."""
    return cast("forms.ChoiceField", form.fields[name])


def site_of(request: HttpRequest) -> str:
    """The name of the admin site that is looked at."""
    return request.resolver_match.namespace if request.resolver_match else "admin"


@dataclass(frozen=True, slots=True)
class Button:
    """An act as a page shows it."""

    name: str
    label: Any
    url: str
    tone: str
    why_not: str = field(default="")

    @classmethod
    def of(cls, act: Act, request: HttpRequest, row: Any, url: str, back: str) -> Button:
        why_not = missing(request, act.permission) or act.forbidden(request, row)
        return cls(act.name, act.label, f"{url}?{urlencode({'back': back})}", act.tone, why_not)


def back_to(request: HttpRequest, default: str) -> str:
    """Where the person came from, on this site, with his filters as they were."""
    wanted = request.POST.get("back") or request.GET.get("back") or ""
    if wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None):
        return wanted
    return default


def confirm(
    page: Acting, request: HttpRequest, act: Act, row: Any, extra: dict[str, Any]
) -> HttpResponseBase:
    """Asks before it is done; does it when it was answered. Without the permission, 403."""
    if missing(request, act.permission):
        if request.method == "POST":
            error = Denied(act.permission)
            kind, key = page.opts.model_name or "", getattr(row, "pk", None)
            raise PermissionDenied from acts.deny(
                error, principal(request), f"{kind}.{act.name}", kind=kind, id=key
            )
        raise PermissionDenied
    back = back_to(request, page.list_url())
    why_not = act.forbidden(request, row)
    asked = request.method == "POST"
    preview: Sequence[Any] = ()
    form = act.form(request.POST if asked else None, row=row, request=request)
    if asked and not why_not and form.is_valid():
        try:
            preview = form.to_look_at()
            answer = None if preview else act.run(request, row, form.cleaned_data)
        except JobsError as error:
            if isinstance(error, Denied):
                raise PermissionDenied from error
            _complain(form, error)
        else:
            if isinstance(answer, HttpResponseBase):
                return answer
            if not preview:
                text, where = answer if isinstance(answer, tuple) else (answer, back)
                messages.success(request, str(text or act.done or _("Done.")))
                return HttpResponseRedirect(where)
    data = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "media": page.media,
        "jd_site": page.admin_site.name,
        "is_fullwidth": True,
        "title": str(act.label).rstrip("…"),
        "subject": row,
        "act": act,
        "form": form,
        "why_not": why_not,
        "preview": preview,
        "consequences": act.consequences(request, row),
        "back": back,
        **extra,
    }
    status = 200 if preview or not asked else 409 if why_not else 422
    return TemplateResponse(request, act.template, data, status=status)


def _complain(form: forms.Form, error: JobsError) -> None:
    """The error stands at the field that it names, or above all of them."""
    option, words = getattr(error, "option", None), in_words(error)
    if option in form.fields:
        form.add_error(option, capfirst(words.removeprefix(f"{option}: ")))
    else:
        form.add_error(None, words)
