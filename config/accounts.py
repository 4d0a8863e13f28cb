"""Where people log in who are not members of the staff, and where they come to then."""

from __future__ import annotations

from django.apps import apps
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache

from jobs.admin import AccountForm

login = LoginView.as_view(
    authentication_form=AccountForm,
    template_name="admin/login.html",
    redirect_authenticated_user=True,
    extra_context={"title": _("Log in"), "site_header": "Jobdesk", "site_title": "Jobdesk"},
)


@never_cache
@login_required
def home(request: HttpRequest) -> HttpResponse:
    """Redirect the staff to the admin; show others what they may use."""
    if request.user.is_staff:
        return redirect("admin:index")
    return render(
        request,
        "config/home.html",
        {
            "title": request.user.get_username(), "site_header": "Jobdesk", "site_title": "Jobdesk",
            "has_documents": apps.is_installed("fileproc"),
        },
    )  # fmt: skip


urlpatterns = [
    path("login/", login, name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
