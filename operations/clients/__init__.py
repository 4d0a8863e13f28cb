"""The ERP's clients: JSON over HTTP, and the pages of the ERP in a browser."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from operations.clients import browser, erp
from operations.clients.contract import (
    ANSWER_LIMIT,
    DOCUMENT_LIMIT,
    LONGEST_ID,
    Client,
    Found,
    sha256,
)
from operations.config import settings
from operations.models import Agent, ClientKind

__all__ = [
    "ANSWER_LIMIT", "DOCUMENT_LIMIT", "LONGEST_ID", "Client", "Found", "connect", "sha256",
]  # fmt: skip
LONGEST = 3600


def connect(
    agent: Agent, seconds: float | None = None, limit: int = ANSWER_LIMIT,
    ended: Callable[[], object] = lambda: None,
) -> AbstractContextManager[Client]:  # fmt: skip
    """Open a connection for an agent; no call of it lasts longer than ``seconds``.

    ``ended`` is called when a call was ended by ``Client.end``, and raises.
    """
    total = min(settings().CALL_TIMEOUT if seconds is None else seconds, LONGEST)
    open_: Any = browser.connect if agent.client == ClientKind.BROWSER else erp.connect
    found: AbstractContextManager[Client] = open_(agent, total, limit, ended)
    return found
