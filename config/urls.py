from django.apps import apps
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from config.api import api
from jobs import metrics

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("metrics", metrics.view),
]

if apps.is_installed("emailgw"):
    urlpatterns.append(path("webhooks/email/", include("emailgw.urls")))
