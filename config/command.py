"""Run a management command; a server that cannot be reached is one line, not a traceback."""

import os

from config.environment import fail


def run(arguments: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(arguments)
    except Exception as error:
        variable = unreachable(error)
        if variable is None:
            raise
        fail(variable, f"the server cannot be reached: {_reason(error)}")


def unreachable(error: BaseException) -> str | None:
    """The variable at fault when ``error`` says that no connection came about."""
    from django.db import OperationalError
    from psycopg import OperationalError as DriverError
    from redis.exceptions import ConnectionError as RedisConnectionError

    if isinstance(error, OperationalError) and isinstance(error.__cause__, DriverError):
        # psycopg keeps pgconn only for a failed attempt to connect; a connection that broke
        # later is worth its traceback.
        return "DATABASE_URL" if error.__cause__.pgconn is not None else None
    if isinstance(error, RedisConnectionError):
        return "REDIS_URL"
    return None


def _reason(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
