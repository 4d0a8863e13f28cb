"""A page for people: what has appeared."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Published</title>
<style>body{font:16px/1.5 sans-serif;max-width:45em;margin:2em auto;padding:0 1em}
pre{white-space:pre-wrap;overflow-wrap:anywhere}</style><h1>Published</h1>%s</html>"""


def answer(standin: Standin, request: Request) -> Answer:
    """Show all posts with their comments, the newest of an account first."""
    parts = []
    for place, posts in sorted(standin.posts.items()):
        rows = "".join(_post(one, standin.comments) for one in posts)
        parts.append(f"<h2>{html.escape(place)}</h2>{rows}")
    body = _PAGE % ("".join(parts) or "<p>Nothing has been published yet.</p>")
    return 200, body.encode(), {"Content-Type": "text/html; charset=utf-8"}


def _post(post: dict[str, Any], comments: dict[str, list[dict[str, Any]]]) -> str:
    name = str(post.get("name") or post["id"])
    shown = "\n".join(
        f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in post.items()
        if value
    )
    below = "".join(
        f"<p>Comment: {html.escape(str(one['text']))}</p>" for one in comments.get(name, ())
    )
    return f'<pre id="{html.escape(name)}">{html.escape(shown)}</pre>{below}'
