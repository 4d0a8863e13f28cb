"""The page on which people upload and search, and its login."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from fileproc import views

app_name = "fileproc"
urlpatterns = [
    path("", views.page, name="page"),
    path(
        "login/",
        LoginView.as_view(
            template_name="fileproc/login.html",
            next_page="fileproc:page",
            redirect_authenticated_user=True,
        ),
        name="login",
    ),
    path("logout/", LogoutView.as_view(next_page="fileproc:login"), name="logout"),
]
