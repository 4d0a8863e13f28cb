"""A channel whose distribution is gone: its rows are shown, and nothing is sent."""

from __future__ import annotations

from typing import Any

from publisher.connectors.base import Connector, Published, Run
from publisher.content import Content
from publisher.errors import Fault, ProviderError


class Absent(Connector):
    """Takes no post."""

    def faults(self, content: Content) -> list[Fault]:
        """Return that nothing can be published here."""
        return [Fault("channel", "its connector is not installed")]

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the text."""
        return {"text": content.text}

    def publish(self, run: Run) -> Published:
        """Refuse the post."""
        raise ProviderError("permanent", "its connector is not installed")
