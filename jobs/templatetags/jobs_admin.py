"""Tags of the jobs admin's templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import django
from django import template
from django.template import Context
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobs.operate.permissions import VIEW_JOB

register = template.Library()


def _component(name: str) -> Callable[..., Any]:
    """The component, looked up when used: a theme loads libraries while it is itself imported."""

    def draw(*values: Any, **options: Any) -> Any:
        from jobs.admin import components

        return getattr(components, name)(*values, **options)

    return draw


for _name in ("badge", "tag", "empty", "icon"):
    register.simple_tag(_component(_name), name=f"jd_{_name}")
register.simple_tag(_component("copy_button"), name="jd_copy")
register.filter("jd_duration", _component("duration"))
register.filter("jd_pretty", _component("pretty"))
_time_tag = _component("time_tag")
_number = _component("number")
register.filter("jd_ago", lambda value: _time_tag(value))
register.filter("jd_for", lambda value: _time_tag(value, "for"))


@register.filter
def jd_number(value: Any) -> Any:
    """A number with its separators."""
    return _number(value) if isinstance(value, int | float) else value


@register.filter
def jd_passed_by(why: object) -> str:
    """Why a job is passed by, after a number; of a state only its word, which need not agree."""
    from jobs.admin.refusals import in_words
    from jobs.admin.words import LOOKS

    text = str(why)
    state = text.removeprefix("is ")
    if state != text and state in LOOKS:
        return f"× {str(LOOKS[state].label).lower()}"  # noqa: RUF001
    return f"× {in_words(text)}"  # noqa: RUF001


@register.filter
def jd_refusal(why: object) -> str:
    """Why something was refused or passed by, in the reader's language."""
    from jobs.admin.refusals import in_words

    return in_words(why)


@register.filter
def jd_short(value: object) -> str:
    """The end of an id, which differs even between ids of the same moment."""
    return f"…{str(value)[-8:]}"


@register.simple_tag(takes_context=True)
def jd_breadcrumbs(context: Context) -> SafeString:
    """The way here, in the markup of the running Django: a list since 6.1."""
    site = context.get("jd_site", "admin")
    crumbs = [(reverse(f"{site}:index"), _("Home")), *(context.get("jd_crumbs") or ())]
    here = context.get("title", "")
    if django.VERSION >= (6, 1):
        items = format_html_join("", '<li><a href="{}">{}</a></li>', crumbs)
        return format_html(
            '<ol class="breadcrumbs">{}<li aria-current="page">{}</li></ol>', items, here
        )
    links = format_html_join(" › ", '<a href="{}">{}</a>', crumbs)  # noqa: RUF001
    return format_html('<div class="breadcrumbs">{} › {}</div>', links, here)  # noqa: RUF001


@register.simple_tag(takes_context=True)
def jobs_overview(context: Context) -> SafeString:
    """The overview as a block of another page, such as ``admin/index.html``."""
    from jobs.admin import overview
    from jobs.admin.access import principal

    request = context["request"]
    who = principal(request)
    if not who.may(VIEW_JOB) or who.scope.tenants is not None:
        return SafeString("")
    data = overview.build(request, str(context.get("jd_site", "admin")))
    return SafeString(render_to_string("jobs/admin/overview_block.html", data, request))
