"""Tokens of services that speak OAuth as its standard says: refresh tokens are good once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.standins.publisher import consents

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin


def answer(standin: Standin, request: Request, spent: str = "invalid_grant") -> Answer:
    """Exchange a refresh token for new tokens; ``spent`` is what one that was used is called."""
    if request.body.get("grant_type") == "authorization_code":
        is_good = consents.is_good(standin, request.body)
    else:
        token = str(request.body.get("refresh_token", ""))
        is_good = standin.refreshes.pop(token, None) is not None
    if not is_good:
        return 400, {"error": spent, "error_description": "refused"}
    number = standin.next_id()
    standin.refreshes[f"refresh-{number}"] = f"token-{number}"
    return 200, {
        "access_token": f"token-{number}", "refresh_token": f"refresh-{number}",
        "expires_in": 7200, "token_type": "bearer",
    }  # fmt: skip
