"""Reasons to refuse a client."""

from __future__ import annotations


class Refused(Exception):
    """Refuse the client, for the reason given: close code 4403, or status 403."""


class NotFound(Exception):
    """Refuse the client because nothing is there: close code 4404, or status 404."""


class NobodyKnown(Exception):
    """The client is not authenticated."""
