"""Where the sockets of live events are found; pages and streams are endpoints of the API."""

from __future__ import annotations

from typing import Any

from django.urls import path

from jobs.realtime import sockets

_consumer: Any = sockets.Events.as_asgi()
websocket_urlpatterns = [path("ws/events", _consumer)]
"""For the URLRouter of Channels."""
