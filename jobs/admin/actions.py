"""What people do on pages: a button that is live or says why not, a page that asks, one call.

The permission and the state are asked again by the verb in ``jobs.operate``; what pages show is
only a courtesy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.access import missing, principal
from jobs.errors import Denied, JobsError
from jobs.operate import acts

if TYPE_CHECKING:
    from jobs.admin.base import PlatformAdmin


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
    """Does it with the form's values; may answer what to say, or (what to say, where to go)."""
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
    page: PlatformAdmin, request: HttpRequest, act: Act, row: Any, extra: dict[str, Any]
) -> HttpResponse:
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
    form = act.form(request.POST if asked else None, row=row, request=request)
    if asked and not why_not and form.is_valid():
        try:
            answer = act.run(request, row, form.cleaned_data)
        except JobsError as error:
            if isinstance(error, Denied):
                raise PermissionDenied from error
            _complain(form, error)
        else:
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
        "consequences": act.consequences(request, row),
        "back": back,
        **extra,
    }
    status = 409 if asked and why_not else 422 if asked else 200
    return TemplateResponse(request, act.template, data, status=status)


def _complain(form: forms.Form, error: JobsError) -> None:
    """The error stands at the field that it names, or above all of them."""
    option = getattr(error, "option", None)
    form.add_error(option if option in form.fields else None, str(error))
