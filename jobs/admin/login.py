"""Logging in to pages: passwords cannot be guessed, as few failures a minute are heard.

::

    admin.site.login_form = jobs.admin.LoginForm
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from jobs.api import throttle
from jobs.api.problem import Problem

if TYPE_CHECKING:
    Form = AuthenticationForm
else:
    Form = object


class Throttled(Form):
    """A login that counts its failures by address, with those of the API."""

    def clean(self) -> dict[str, Any]:
        if self.request is None:
            return super().clean()
        try:
            throttle.check_refused(self.request)
        except Problem:
            raise ValidationError(
                _("Too many failed logins from your network. Try again in a minute."),
                code="throttled",
            ) from None
        try:
            return super().clean()
        except ValidationError:
            throttle.refuse(self.request)
            raise


class LoginForm(Throttled, AdminAuthenticationForm):
    """The login of the admin."""


class AccountForm(Throttled, AuthenticationForm):
    """The login of everybody."""
