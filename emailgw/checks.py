"""System checks of the settings."""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from emailgw import config


@checks.register("emailgw")
def check_settings(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that ``EMAILGW`` is valid."""
    try:
        config.settings()
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="emailgw.E001")]
    return []


@checks.register("emailgw", deploy=True)
def check_providers(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if no provider is configured."""
    try:
        providers = config.settings().PROVIDERS
    except ImproperlyConfigured:
        return []  # reported by check_settings
    if not providers:
        return [
            checks.Warning(
                "no mail can be sent: EMAILGW names no provider",
                'EMAILGW = {"PROVIDERS": {"smtp": {"OPTIONS": {"host": "localhost"}}}}',
                id="emailgw.W001",
            )
        ]
    return []
