"""Showing what an email looks like, to people, without anything leaving their browser."""

from __future__ import annotations

from dataclasses import dataclass

from emailgw import html
from emailgw.errors import Refused

PAPER = '<body bgcolor="#ffffff" text="#000000">'


@dataclass(frozen=True, slots=True)
class Preview:
    """A whole document, and the policy with which it must be served."""

    document: str
    policy: str = html.POLICY


def preview(body: str) -> Preview:
    """The HTML as it would be sent; raises Refused where it would not be."""
    if problem := html.html_problem(body):
        raise Refused("VALIDATION_ERROR", problem, "html")
    # Mail is written for white paper, whatever the page around it looks like.
    shown = html.page(html.sanitised(body)).replace("<body>", PAPER, 1)
    return Preview(shown)
