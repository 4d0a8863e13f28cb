"""The HTML of emails: validation, sanitising, and conversion to plain text.

Everything that runs, submits, embeds or loads is removed: scripts, forms, frames, objects, style
sheets and remote images. Links are kept.
"""

from __future__ import annotations

import html as entities
import re
from functools import lru_cache

import nh3

from emailgw.config import HTML_LIMIT
from jobs.fields import blind_index

_TAGS = nh3.ALLOWED_TAGS | {"font", "center", "section", "article", "header", "footer", "main"}
_STYLED = {"style", "class", "dir", "lang", "align", "valign", "width", "height", "bgcolor"}
_ATTRIBUTES = {
    **{tag: set(names) for tag, names in nh3.ALLOWED_ATTRIBUTES.items()},
    "*": _STYLED,
    "a": {"href", "title", "target"},
    "img": {"src", "alt", "title", "width", "height"},
    "font": {"color", "face", "size"},
    "table": {"border", "cellpadding", "cellspacing", "role"},
}
_IMAGE = re.compile(r"(?:cid:|data:image/(?:png|jpeg|gif|webp);base64,)", re.IGNORECASE)
_STYLE = {
    "background-color", "border", "border-bottom", "border-collapse", "border-color", "border-left",
    "border-radius", "border-right", "border-spacing", "border-top", "color", "display", "font",
    "font-family", "font-size", "font-style", "font-weight", "height", "letter-spacing",
    "line-height", "margin", "margin-bottom", "margin-left", "margin-right", "margin-top",
    "max-width", "min-width", "padding", "padding-bottom", "padding-left", "padding-right",
    "padding-top", "text-align", "text-decoration", "text-transform", "vertical-align",
    "white-space", "width", "word-break",
}  # fmt: skip
_FETCHES = re.compile(r"url\s*\(|image-set|expression|@import|\\", re.IGNORECASE)
_BLOCK = re.compile(r"<(?:br|/p|/div|/h[1-6]|/tr|/li|/table)\b[^<>]*>", re.IGNORECASE)
_CELL = re.compile(r"</t[dh]\s*>", re.IGNORECASE)

SHORT = 64 * 1024
"""The longest content, in characters, that is cached."""
POLICY = "default-src 'none'; img-src data: cid:; style-src 'unsafe-inline'; sandbox"
"""The Content-Security-Policy of a preview: nothing is loaded or run."""


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name == "src":
        return value if _IMAGE.match(value.strip()) else None
    if name == "style" and _FETCHES.search(value):
        return None
    if name == "href" and value.strip().lower().startswith(("data:", "cid:")):
        return None
    return value


def sanitised(html: str) -> str:
    """Return the HTML without anything that runs or loads."""
    return _cached(html) if len(html) <= SHORT else _sanitised(html)


def _sanitised(html: str) -> str:
    return nh3.clean(
        html,
        tags=set(_TAGS),
        clean_content_tags={"script", "style", "title"},
        attributes=_ATTRIBUTES,
        attribute_filter=_attribute,
        url_schemes={"http", "https", "mailto", "tel", "cid", "data"},
        filter_style_properties=_STYLE,
        link_rel="noopener noreferrer",
    )


_cached = lru_cache(maxsize=64)(_sanitised)  # many emails have the same content


def html_problem(html: str) -> str:
    """Return why this is not valid content of an email; empty if it is valid."""
    try:
        size = len(html.encode())
    except UnicodeEncodeError:
        return "must be valid UTF-8"
    if size > HTML_LIMIT:
        return f"must have at most {HTML_LIMIT} bytes"
    if "\x00" in html:
        return "must not contain control characters"
    if not html.strip():
        return "must not be empty"
    return ""


def digest(html: str, company: object) -> str:
    """Return the keyed hash of a content, different for each company."""
    return blind_index(html, "emailgw.html", str(company))


def as_text(html: str) -> str:
    """Convert the HTML to plain text."""
    text = _CELL.sub(" ", _BLOCK.sub("\n", html))
    text = entities.unescape(nh3.clean(text, tags=set()))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def page(html: str) -> str:
    """Wrap the sanitised HTML in a document."""
    return (
        '<!doctype html><html><head><meta charset="utf-8"></head><body>'
        f"{html}</body></html>"
    )  # fmt: skip
