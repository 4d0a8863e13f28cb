"""System checks of the settings."""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from publisher import assets, channels, config, images


@checks.register("publisher")
def check_settings(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that ``PUBLISHER`` is valid."""
    try:
        config.settings()
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="publisher.E001")]
    return []


@checks.register("publisher")
def check_connectors(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that every connector of another distribution can be used."""
    hint = f"Its entry point of the group {channels.GROUP} is ignored: mend or remove it."
    return [
        checks.Error(f"A connector cannot be used: {one}.", hint, id="publisher.E002")
        for one in channels.found().problems
    ]


@checks.register("publisher")
def check_images(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that images can be converted."""
    if images.is_installed():
        return []
    words = "Images cannot be converted for channels: Pillow is not installed."
    hint = "Install the extra `publisher`; images that a channel does not take are refused."
    return [checks.Warning(words, hint, id="publisher.W002")]


@checks.register("publisher", deploy=True)
def check_addresses(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that providers can fetch assets."""
    if assets.is_reachable():
        return []
    words = "Providers cannot fetch assets: PUBLISHER['PUBLIC_URL'] is not set."
    hint = "Set it to the address of this project, or keep blobs in S3."
    return [checks.Warning(words, hint, id="publisher.W001")]
