"""Addresses outside of the REST API."""

from __future__ import annotations

from typing import Any

from django.urls import include, path

from trading import logins
from trading.realtime import coach

urlpatterns: list[Any] = [
    path("ai/", include("trading.ai.urls")),
    path("trading/coinbase/callback", logins.callback, name="trading-coinbase-callback"),
    path("internal/events", coach.page),
    path("internal/events/subscribe", coach.stream),
]
websocket_urlpatterns: list[Any] = [path("ws/coach", coach.socket)]
