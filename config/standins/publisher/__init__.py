"""A stand-in for the providers of the publisher: one server that speaks all of their APIs.

::

    python -m config.standins.publisher 8765
"""

from config.standins.publisher.server import Standin

__all__ = ["Standin"]
