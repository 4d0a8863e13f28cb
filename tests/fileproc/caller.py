"""Programs and users that call the upload API."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from fileproc.permissions import QUEUES
from fileproc.verbs import OWN
from jobs.operate import apikeys

BASE = "/api/v2/uploads"


class Caller:
    """Whoever calls, by key or by session."""

    def __init__(self, client: Client, headers: dict[str, str]) -> None:
        self.client, self.headers = client, headers

    def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The response, with its JSON as ``data``."""
        raw = json.dumps(body).encode() if body is not None else b""
        content_type = options.pop("content_type", "application/json")
        headers = {**self.headers, **options}
        address = path if path.startswith("/blobs") else BASE + path
        response: Any = self.client.generic(
            method, address, options.pop("raw", raw), content_type=content_type, headers=headers
        )
        is_json = "json" in response.headers.get("Content-Type", "")
        response.data = json.loads(response.content) if is_json and response.content else None
        return response

    def upload(self, name: str, data: bytes, batch: str = "", md5: str = "abc123") -> str:
        """The id of a file that was uploaded and confirmed, as in the curl sessions."""
        if not batch:
            batch = self("POST", "/batches", {"fileCount": 1}).data["batchId"]
        asked = {"fileName": name, "fileSize": len(data)}
        made = self("POST", f"/batches/{batch}/upload-urls", asked)
        assert made.status_code == 200, made.content
        stored = self.put(made.data, data)
        assert stored.status_code == 200, stored.content
        file = made.data["fileId"]
        asked = {"size": len(data), "md5": md5}
        done = self("POST", f"/batches/{batch}/files/{file}/confirm", asked)
        assert done.status_code == 200, done.content
        return str(file)

    def put(self, made: dict[str, Any], data: bytes) -> Any:
        response: Any = Client().put(
            made["uploadUrl"], data, content_type=made["headers"]["Content-Type"]
        )
        return response


def user(name: str = "ana", **fields: Any) -> Caller:
    """A user of the page, who has no permissions at all."""
    client = Client()
    client.force_login(User.objects.create_user(name, **fields))
    return Caller(client, {})


def program(*tenants: str, permissions: Any = OWN, **options: Any) -> Caller:
    """A program with a key for these tenants and the queues of the stages."""
    options.setdefault("queues", list(QUEUES))
    told = apikeys.create(
        options.pop("name", "program"), sorted(permissions), by="tests", reason="a test",
        tenants=list(tenants) or None, **options,
    )  # fmt: skip
    return Caller(Client(), {"Authorization": f"Bearer {told.text}"})
