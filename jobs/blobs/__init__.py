"""Blobs: files of any size beside the database, uploaded and downloaded by signed addresses.

::

    store = blobs.store()  # what JOBS["BLOBS"] names: a folder, or a bucket of S3
    upload = store.put_url("user-7/report.pdf", size=12_345, content_type="application/pdf")
    ...  # the client sends PUT upload.url with upload.headers
    found = store.head("user-7/report.pdf")
    url = store.get_url("user-7/report.pdf", content_type="application/pdf", filename="Report.pdf")

An upload has exactly the size and type that were signed, and never replaces a blob.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs import conf
from jobs.blobs.base import Blob, Store, Upload
from jobs.blobs.local import LocalStore
from jobs.blobs.s3 import S3Store
from jobs.errors import ConfigError

__all__ = ["Blob", "LocalStore", "S3Store", "Store", "Upload", "store"]

_NEEDED = {
    "local": ({"ROOT"}, {"ORIGIN"}),
    "s3": ({"ENDPOINT", "BUCKET", "REGION", "KEY_ID", "SECRET"}, set[str]()),
}


def store() -> Store:
    """Return the store that ``JOBS["BLOBS"]`` names; raise ConfigError if it names none."""
    return build(conf.settings().BLOBS)


def build(options: Mapping[str, Any]) -> Store:
    """Return the store of these options; raise ConfigError that names what is wrong."""
    if not options:
        raise ConfigError("JOBS['BLOBS'] is empty: name a store, like {'STORE': 'local', …}")
    kind = options.get("STORE")
    if kind not in _NEEDED:
        raise ConfigError(f"JOBS['BLOBS']['STORE'] must be 'local' or 's3', got {kind!r}")
    needed, others = _NEEDED[kind]
    given = set(options) - {"STORE"}
    for name in sorted(needed - given):
        raise ConfigError(f"JOBS['BLOBS'] needs {name!r} for a store of kind {kind!r}")
    for name in sorted(given - needed - others):
        raise ConfigError(f"JOBS['BLOBS'] has no {name!r} for a store of kind {kind!r}")
    for name in sorted(given):
        if not isinstance(options[name], str) and name != "ROOT":
            raise ConfigError(f"JOBS['BLOBS'][{name!r}] must be a text")
    if kind == "local":
        return LocalStore(options["ROOT"], options.get("ORIGIN", ""))
    return S3Store(
        endpoint=options["ENDPOINT"], bucket=options["BUCKET"], region=options["REGION"],
        key_id=options["KEY_ID"], secret=options["SECRET"],
    )  # fmt: skip
