"""What a caller is told, and what it may send: no more than is its own, and nothing unchecked."""

from __future__ import annotations

from typing import Any

import pytest

import jobs
from tests.api.conftest import Caller
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "text/plain"])
def test_a_body_is_checked_whatever_it_calls_itself(root: Caller, kind: str) -> None:
    headers = {"Authorization": f"Bearer {root.secret}"}

    answer = root.client.generic(
        "POST", "/api/v1/batches", b'{"name": "a", "name": "b"}', content_type=kind, headers=headers
    )

    assert answer.status_code == 422 and b"repeated-key" in answer.content
