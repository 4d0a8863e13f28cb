"""A server of the AT protocol: sessions, blobs, and records under the keys of their writers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

FIELDS = {"$type", "text", "createdAt", "facets", "embed", "langs"}
LARGEST = 1_000_000
KNOWN = {"rome.test": "did:plc:rome"}
"""Who can be mentioned, by their handles."""
_TID = re.compile(r"[234567abcdefghij][2-7a-z]{12}\Z")


def answer(standin: Standin, request: Request) -> Answer:
    """Answer a call of the protocol."""
    name = request.path.removeprefix("xrpc/com.atproto.")
    if name == "server.createSession":
        if request.body.get("password") in standin.expired or not request.body.get("password"):
            return refuse(401, "AuthenticationRequired")
        return _session(standin)
    if name == "server.refreshSession":
        if standin.refreshes.pop(request.token, None) is None:
            return refuse(400, "ExpiredToken")
        return _session(standin)
    if request.token in standin.expired or not request.token:
        return refuse(400, "ExpiredToken")
    if name == "identity.resolveHandle":
        handle = request.query.get("handle", "")
        is_known = handle in KNOWN
        return (200, {"did": KNOWN[handle]}) if is_known else refuse(400, "InvalidRequest")
    if name == "repo.uploadBlob":
        made = {
            "$type": "blob", "ref": {"$link": f"bafk{standin.next_id()}"},
            "mimeType": request.headers.get("Content-Type"), "size": len(request.raw),
        }  # fmt: skip
        return 200, {"blob": made}
    if name == "repo.getRecord":
        uri = _uri(request.query)
        found = [one for one in standin.posts["bluesky"] if one["id"] == uri]
        return (200, {"uri": uri, "value": found[0]}) if found else refuse(400, "RecordNotFound")
    return (
        _record(standin, request)
        if name == "repo.createRecord"
        else refuse(501, "MethodNotImplemented")
    )


def _session(standin: Standin) -> Answer:
    number = standin.next_id()
    standin.refreshes[f"refresh-{number}"] = f"token-{number}"
    return 200, {
        "accessJwt": f"token-{number}", "refreshJwt": f"refresh-{number}", "handle": "bakery.test",
        "did": "did:plc:bakery",
    }  # fmt: skip


def _uri(about: dict[str, Any]) -> str:
    return f"at://{about['repo']}/{about['collection']}/{about['rkey']}"


def _record(standin: Standin, request: Request) -> Answer:
    body = request.body
    record, uri = body.get("record", {}), _uri(body)
    size = len(str(record.get("text", "")).encode())
    if set(record) - FIELDS or size > 3000 or not _TID.match(body["rkey"]):
        return refuse(400, "InvalidRequest")
    for facet in record.get("facets", ()):
        if not 0 <= facet["index"]["byteStart"] < facet["index"]["byteEnd"] <= size:
            return refuse(400, "InvalidRequest")
        if any(one["$type"].endswith("#mention") and not one["did"] for one in facet["features"]):
            return refuse(400, "InvalidRequest")
    images = record.get("embed", {}).get("images", ())
    if any(one["image"]["size"] > LARGEST for one in images):
        return refuse(400, "BlobTooLarge")
    if any(one["id"] == uri for one in standin.posts["bluesky"]):
        return refuse(500, "InternalServerError")
    standin.posts["bluesky"].insert(0, {**record, "id": uri})
    return 200, {"uri": uri, "cid": "bafy"}


def refuse(status: int, name: str) -> Answer:
    """Return an error of the protocol."""
    return status, {"error": name, "message": "refused"}
