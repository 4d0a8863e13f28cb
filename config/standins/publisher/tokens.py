"""Tokens of services that speak OAuth as its standard says: refresh tokens are good once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin


def answer(standin: Standin, request: Request, spent: str = "invalid_grant") -> Answer:
    """Exchange a refresh token for new tokens; ``spent`` is what one that was used is called."""
    if standin.refreshes.pop(str(request.body.get("refresh_token", "")), None) is None:
        return 400, {"error": spent, "error_description": "refused"}
    number = standin.next_id()
    standin.refreshes[f"refresh-{number}"] = f"token-{number}"
    return 200, {
        "access_token": f"token-{number}", "refresh_token": f"refresh-{number}",
        "expires_in": 7200, "token_type": "bearer",
    }  # fmt: skip
