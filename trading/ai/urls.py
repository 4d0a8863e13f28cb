"""Addresses of the AI service, below ``/ai/``."""

from django.urls import path

from trading.ai import views

urlpatterns = [
    path("v1/indicators", views.indicators_view),
    path("v1/bias/score", views.score_view),
    path("v1/nlg/reflect", views.reflect_view),
]
