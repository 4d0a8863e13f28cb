"""What people do on pages: a button that is live or says why not, a page that asks, one call.

The permission and the state are asked again by the verb in ``jobs.operate``; what pages show is
only a courtesy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import doing
from jobs.admin.access import missing, principal
from jobs.admin.fields import When as When
from jobs.admin.fields import Words, field_of
from jobs.admin.refusals import in_words
from jobs.errors import Denied, JobsError
from jobs.operate import acts, verbs
from jobs.operate.parameters import Parameter
from jobs.operate.verbs import Verb

if TYPE_CHECKING:
    from jobs.admin.acting import Acting


class Reason(forms.Form):
    """Every act asks why, and for those parameters of its verb that the form has words for."""

    verb = ""
    """The verb that it is about, where it is not the form of an act that names one."""
    words: Mapping[str, Words] = {}
    of_row = False
    """Whether its fields begin with what the row has."""
    template_name = "jobs/admin/parts/form.html"
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("Kept in the audit with your name."),
    )

    def __init__(
        self, *args: Any, row: Any = None, request: Any = None, verb: str = "", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.row, self.request = row, request
        found = verbs.find(verb or self.verb)
        for one in _parts(found) if found is not None else ():
            words = self.words.get(one.name)
            if words and words.shown(self) and (asked := field_of(one, words, self)):
                self.fields[one.name] = asked
        if found is not None and found.reason is None:
            self.fields.pop("reason", None)
        names = [*(self.field_order or ()), *self.fields]
        self.order_fields([name for name in names if name != "reason"])

    def to_look_at(self) -> Sequence[Any]:
        """What a valid form would do, where that is to be looked at before it is done."""
        return ()


def _parts(verb: Verb) -> list[Parameter]:
    return [part for one in verb.every_parameter for part in one.parts]


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


def _key(row: Any) -> Any:
    return getattr(row, "pk", None)


def _nothing(request: HttpRequest, row: Any) -> Sequence[Any]:
    return ()


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that can be done with a row, or with None to make one."""

    name: str
    label: Any
    run: Callable[[HttpRequest, Any, dict[str, Any]], Any] | None = None
    """Does it with the form's values; may return what to say, (what to say, where to go), or a
    page of its own. Without it the verb is done to ``target`` with the values by their names."""
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
    """The verb that it does: its permission is that of the declaration, without which there is no
    act."""
    submit: Any = ""
    """What the button that does it says, where that is not the label."""
    needs: str = ""
    """The permission of an act that does no verb."""
    many: bool = False
    """Whether it is offered for the selected rows of a list, too."""
    target: Callable[[Any], Any] = _key
    """The id of the row, as the verb takes it."""
    given: Callable[[HttpRequest, Any, dict[str, Any]], Mapping[str, Any]] | None = None
    """Makes values for the verb of those of the form, where they are not the same."""
    show: Callable[[HttpRequest, Any, Any], Any] | None = None
    """Makes what ``run`` may return of what the verb has returned."""

    @property
    def permission(self) -> str:
        """The permission that it asks for."""
        found = verbs.find(self.verb)
        return self.needs if found is None else found.permission

    def do(self, request: HttpRequest, row: Any, given: dict[str, Any]) -> Any:
        """Do it with the values of the form; return as ``run`` does."""
        if self.run is not None:
            return self.run(request, row, given)
        if (verb := verbs.find(self.verb)) is None:
            raise Http404
        also = {} if self.given is None else self.given(request, row, given)
        found = doing.do(verb, request, self.target(row), given, **also)
        return "" if self.show is None else self.show(request, row, found)

    @property
    def is_offered(self) -> bool:
        """Whether there is something that it does."""
        return bool(self.needs) or verbs.find(self.verb) is not None


class Until(Reason):
    """When it goes on by itself."""

    words = {
        "until": Words(
            gettext_lazy("Until"),
            gettext_lazy("Resumes automatically at this time. Leave empty to resume manually."),
        )
    }


class NoteForm(Reason):
    """The note that everybody sees beside the row; it is its own reason."""

    words = {
        "text": Words(
            gettext_lazy("Note"), gettext_lazy("Leave empty to remove the note."),
            initial=lambda form: form.row.note, empty="",
        )
    }  # fmt: skip


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
            raise PermissionDenied from _denied(page, request, act, row)
        raise PermissionDenied
    back = back_to(request, page.list_url())
    why_not = act.forbidden(request, row)
    asked = request.method == "POST"
    preview: Sequence[Any] = ()
    form = act.form(request.POST if asked else None, row=row, request=request, verb=act.verb)
    if asked and not why_not and form.is_valid():
        try:
            preview = form.to_look_at()
            answer = None if preview else act.do(request, row, form.cleaned_data)
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


def _denied(page: Acting, request: HttpRequest, act: Act, row: Any) -> JobsError:
    """Return the lack of the permission, which the audit has seen."""
    error, key = Denied(act.permission), getattr(row, "pk", None)
    verb = verbs.find(act.verb)
    kind = verb.target.kind if verb is not None else page.opts.model_name or ""
    return acts.deny(error, principal(request), act.verb or f"{kind}.{act.name}", kind=kind, id=key)


def _complain(form: forms.Form, error: JobsError) -> None:
    """The error stands at the field that it names, or above all of them."""
    option, words = getattr(error, "option", None), in_words(error)
    if option in form.fields:
        form.add_error(option, capfirst(words.removeprefix(f"{option}: ")))
    else:
        form.add_error(None, words)
