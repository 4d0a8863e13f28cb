"""Where events are found; a project includes both lists, or mounts the views elsewhere."""

from __future__ import annotations

from typing import Any

from django.urls import path

from jobs.realtime import sockets, views

urlpatterns = [
    path("api/v1/events", views.events, name="jobs-events"),
    path("api/v1/events/stream", views.stream, name="jobs-events-stream"),
    path("api/v1/events/ticket", views.ticket, name="jobs-events-ticket"),
]
_consumer: Any = sockets.Events.as_asgi()
websocket_urlpatterns = [path("ws/events", _consumer)]
"""For the URLRouter of Channels."""
