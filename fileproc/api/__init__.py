"""The upload API, mounted at ``/api/v2/uploads``: batches, files, dead letters, search."""

from __future__ import annotations

from fileproc.api import batches as batches
from fileproc.api import files as files
from fileproc.api import health as health
from fileproc.api import letters as letters
from fileproc.api import searching as searching
from fileproc.api.base import BODY_LIMIT, router
from fileproc.api_verbs import section
from fileproc.login import logins
from jobs.api import add_rest, build_api

__all__ = ["BODY_LIMIT", "api"]

api = build_api(include=(), urls_namespace="uploads-api", title="Uploads", auth=logins())
api.add_router("", router)
api.add_router("", section.router)
add_rest(api, auth=logins())
