"""What ``manage.py check`` says about the settings."""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from jobs import http
from operations import config


@checks.register("operations")
def check_settings(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that ``OPERATIONS`` is valid."""
    try:
        found = config.settings()
        if found.ERP_URL:
            http.check(found.ERP_URL)
    except (ImproperlyConfigured, TypeError) as error:
        return [checks.Error(str(error), id="operations.E001")]
    except http.HttpError as error:
        return [checks.Error(f"OPERATIONS['ERP_URL']: {error}", id="operations.E002")]
    return []


@checks.register("operations", deploy=True)
def check_erp(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if no ERP is configured."""
    try:
        url = config.settings().ERP_URL
    except (ImproperlyConfigured, TypeError):
        return []  # reported by check_settings
    if url:
        return []
    hint = "Set ERP_URL."
    return [checks.Warning("no operation can be enqueued: OPERATIONS names no ERP", hint,
                           id="operations.W001")]  # fmt: skip
