"""Addresses of the live channel."""

from __future__ import annotations

from django.urls import path

from operations.realtime import operations

urlpatterns = [
    path("events", operations.page),
    path("events/stream", operations.stream),
]
websocket_urlpatterns = [path("ws/operations", operations.socket)]
