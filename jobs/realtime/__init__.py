"""Live events: the feed as it grows, for browsers and other programs.

An app declares a ``Channel`` for each socket or stream of its own; ``/ws/events`` and the section
``events`` of the API are the platform's. All of them ask one ``hub``, which reads the feed once for
all listeners of a process.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jobs.realtime.channels import Channel, Only
from jobs.realtime.refusals import NotFound, Refused

if TYPE_CHECKING:
    from jobs.realtime.access import AUTHENTICATORS
    from jobs.realtime.urls import websocket_urlpatterns

# Channels are declared while Django loads; these need its models.
_LAZY = {
    "AUTHENTICATORS": "jobs.realtime.access",
    "websocket_urlpatterns": "jobs.realtime.urls",
}

__all__ = [
    "AUTHENTICATORS",
    "Channel",
    "NotFound",
    "Only",
    "Refused",
    "websocket_urlpatterns",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
