"""PostgreSQL and Valkey from PyPI wheels, for a checkout that is given no servers.

``hold`` shares one pair of servers between all commands of a checkout.
``Postgres`` and ``Valkey`` are private servers, children of the calling process;
``private_postgres`` and ``private_redis`` make those that SERVERS asks for.
"""

from config.embedded.choice import private_postgres, private_redis
from config.embedded.client import addresses, data_folder, hold
from config.embedded.errors import EmbeddedError
from config.embedded.postgres import Postgres
from config.embedded.valkey import Valkey

__all__ = [
    "EmbeddedError",
    "Postgres",
    "Valkey",
    "addresses",
    "data_folder",
    "hold",
    "private_postgres",
    "private_redis",
]
