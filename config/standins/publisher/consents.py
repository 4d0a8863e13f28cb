"""Where a person consents, on behalf of every provider, and the codes that follow."""

from __future__ import annotations

import base64
import hashlib
import html
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Consent</title>
<h1>Let this app publish?</h1><p><a href="%s">Allow</a> <a href="%s">Refuse</a></p></html>"""


def answer(standin: Standin, request: Request) -> Answer:
    """Ask the person."""
    asked = request.query
    client = asked.get("client_id") or asked.get("client_key")
    if not client or not asked.get("redirect_uri") or asked.get("response_type") != "code":
        return 400, {"error": "invalid_request"}
    code, state = f"code-{standin.next_id()}", asked.get("state", "")
    standin.codes[code] = {
        "redirect_uri": asked["redirect_uri"], "challenge": asked.get("code_challenge", ""),
    }  # fmt: skip
    back = asked["redirect_uri"]
    yes = f"{back}?{urlencode({'code': code, 'state': state})}"
    no = f"{back}?{urlencode({'error': 'access_denied', 'state': state})}"
    page = _PAGE % (html.escape(yes), html.escape(no))
    return 200, page.encode(), {"Content-Type": "text/html; charset=utf-8"}


def is_good(standin: Standin, body: dict[str, Any]) -> bool:
    """Take a code, which is good once, for the address and the verifier that it was made for."""
    known = standin.codes.pop(str(body.get("code", "")), None)
    if known is None or known["redirect_uri"] != body.get("redirect_uri"):
        return False
    digest = hashlib.sha256(str(body.get("code_verifier", "")).encode()).digest()
    made = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return not known["challenge"] or bool(made == known["challenge"])
