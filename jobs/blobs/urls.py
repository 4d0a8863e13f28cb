"""The addresses of a local store: ``path("blobs/", include("jobs.blobs.urls"))``."""

from django.urls import path

from jobs.blobs import views

urlpatterns = [path("<path:key>", views.blob, name="jobs-blob")]
