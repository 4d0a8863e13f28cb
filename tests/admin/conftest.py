"""A filled database that is filled once for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections, transaction
from pytest_django import DjangoDbBlocker

from tests.browser.filling import fill, furnished


@pytest.fixture(scope="module")
def ids(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, Any]]:
    """Ids of what the screens are about; each test leaves all of it as it was."""
    outermost = transaction.atomic()
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock(), furnished():
        outermost.__enter__()
        # The end of every test would close the connection, and this transaction with it.
        patch.setattr(connections["default"], "close", lambda: None)
        try:
            yield fill()
        finally:
            transaction.set_rollback(True)
            outermost.__exit__(None, None, None)
