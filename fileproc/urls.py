"""The page on which people upload and search."""

from django.urls import path

from fileproc import views

app_name = "fileproc"
urlpatterns = [path("", views.page, name="page")]
