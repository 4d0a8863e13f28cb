"""Previews of emails that load nothing from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from emailgw import html
from emailgw.errors import Refused

PAPER = '<body bgcolor="#ffffff" text="#000000">'


@dataclass(frozen=True, slots=True)
class Preview:
    """A document, and the Content-Security-Policy to serve it with."""

    document: str
    policy: str = html.POLICY


def preview(body: str) -> Preview:
    """Return the HTML as it would be sent; raise Refused if it is invalid."""
    if problem := html.html_problem(body):
        raise Refused("VALIDATION_ERROR", problem, "html")
    # Emails assume a white background, even if the surrounding page is dark.
    shown = html.page(html.sanitised(body)).replace("<body>", PAPER, 1)
    return Preview(shown)
