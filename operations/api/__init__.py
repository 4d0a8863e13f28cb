"""API of the app: enqueue, follow, stop and decide; agents, sync runs and the mirror."""

from operations.api import agents, documents, enqueue, follow, overview, runs, verbs
from operations.api import mirror as mirror
from operations.api.section import section

__all__ = ["agents", "documents", "enqueue", "follow", "mirror", "overview", "runs", "section",
           "verbs"]  # fmt: skip
