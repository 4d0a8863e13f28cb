from django.apps import apps
from django.contrib import admin
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import include, path

from config.accounts import home
from config.api import api
from jobs import metrics
from jobs.admin import LoginForm

admin.site.login_form = LoginForm

urlpatterns = [
    path("", home),
    path("accounts/", include("config.accounts")),
    path("favicon.ico", lambda request: redirect(static("jobs/icon.svg"))),
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("metrics", metrics.view),
    path("blobs/", include("jobs.blobs.urls")),
]

if apps.is_installed("operations"):
    urlpatterns.append(path("operations/", include("operations.urls")))

if apps.is_installed("emailgw"):
    urlpatterns.append(path("webhooks/email/", include("emailgw.urls")))

if apps.is_installed("fileproc"):
    from fileproc.api import api as uploads

    urlpatterns += [
        path("api/v2/uploads/", uploads.urls),
        path("uploads/", include("fileproc.urls")),
    ]
if apps.is_installed("publisher"):
    from publisher.urls import api as publisher_api

    urlpatterns.append(path("fp-publisher/v1/", publisher_api.urls))
if apps.is_installed("trading"):
    urlpatterns.append(path("", include("trading.urls")))
