"""Panels that other apps hang into the page of a job.

::

    @jobs.admin.register_panel("email.send", title=_("E-mail"))
    def email(request, job):
        return render_to_string("emailgw/panel.html", {...}, request)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from jobs.operate.permissions import VIEW_PAYLOAD

Render = Callable[[HttpRequest, Any], "str | SafeString | None"]


@dataclass(frozen=True, slots=True)
class Panel:
    """A piece of the page of jobs of some kinds."""

    title: Any
    render: Render
    permission: str = ""
    """Full name of a permission without which it is not shown."""


_panels: dict[str, list[Panel]] = {}


def register_panel(
    kind: str | type, *, title: Any, permission: str = VIEW_PAYLOAD
) -> Callable[[Render], Render]:
    """The decorated function's HTML is shown on the page of every job of the kind.

    ``kind`` is the name of a kind, the beginning of names with a star (``email.*``), or a payload
    class. The function takes the request and the job, and answers HTML that is marked safe, text,
    which is escaped, or None for nothing. It is shown to users who have the permission.
    """
    name = kind if isinstance(kind, str) else str(kind.kind)  # type: ignore[attr-defined]

    def add(render: Render) -> Render:
        _panels.setdefault(name, []).append(Panel(title, render, permission))
        return render

    return add


def panels_of(request: HttpRequest, job: Any, may: Callable[[str], bool]) -> list[dict[str, Any]]:
    """The panels of the job with their content, in the order of their registration."""
    found = []
    for name, registered in _panels.items():
        if name != job.kind and not (name.endswith("*") and job.kind.startswith(name[:-1])):
            continue
        for panel in registered:
            if panel.permission and not may(panel.permission):
                continue
            if (content := panel.render(request, job)) is not None:
                found.append({"title": panel.title, "content": conditional_escape(content)})
    return found
