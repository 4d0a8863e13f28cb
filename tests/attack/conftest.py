"""Whoever attacks has a key, as any customer has."""

from tests.api.conftest import acme, fresh_counts, root  # noqa: F401 - fixtures
from tests.integration.conftest import fleet, servers  # noqa: F401 - fixtures
