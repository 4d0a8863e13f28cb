"""How values are shown on plain pages."""

from __future__ import annotations

from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.admin import components


def pretty(value: Any) -> SafeString:
    """JSON, readable."""
    return format_html('<pre class="jd-pre" tabindex="0">{}</pre>', components.pretty(value))
