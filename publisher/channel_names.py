"""The name of a channel as a type. Imported once the apps are ready, it loads all connectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from publisher import channels

if TYPE_CHECKING:
    Name = str
else:
    Name = Literal[tuple(channels.names())]
