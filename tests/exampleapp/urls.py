"""Where the app's views and sockets are."""

from __future__ import annotations

from django.urls import path

from config.urls import urlpatterns as _of_the_project
from tests.exampleapp.realtime import board, coach

urlpatterns = [
    path("internal/events", coach.page),  # before an app of the project that has one, too
    *_of_the_project,
    path("coach/stream", coach.stream),
    path("brands/<str:brand>/events", board.page),
]
websocket_urlpatterns = [
    path("ws/coach", coach.socket),
    path("ws/brands/<str:brand>", board.socket),
]
