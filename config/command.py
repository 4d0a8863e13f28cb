"""Run a management command; what the environment lacks is one line, not a traceback."""

import gc
import os
import traceback

from config.environment import fail


def run(arguments: list[str]) -> None:
    # What is imported stays: looking for garbage in it takes a sixth of the time of a start.
    gc.set_threshold(20_000, 20, 20)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(arguments)
    except Exception as error:
        if key := missing_key(error):
            fail(key, str(error))
        variable = unreachable(error)
        if variable is None:
            raise
        fail(variable, f"the server cannot be reached: {str(error) or type(error).__name__}")


def missing_key(error: BaseException) -> str | None:
    """The variable of a key that is needed, when ``error`` says that it is missing or unsound."""
    from jobs.errors import ConfigError

    told = str(error) if isinstance(error, ConfigError) else ""
    return next((name for setting, name in _KEYS.items() if told.startswith(setting)), None)


_KEYS = {"JOBS['KEYS']": "JOBS_KEYS", "JOBS['INDEX_KEY']": "JOBS_INDEX_KEY"}


def unreachable(error: BaseException) -> str | None:
    """The variable at fault when ``error`` says that no connection came about."""
    from django.db import OperationalError
    from redis.exceptions import ConnectionError as RedisConnectionError

    if isinstance(error, OperationalError):
        # A connection that broke later is worth its traceback.
        steps = traceback.walk_tb(error.__traceback__)
        connecting = any(frame.f_code.co_name == "get_new_connection" for frame, _ in steps)
        return "DATABASE_URL" if connecting else None
    if isinstance(error, RedisConnectionError):
        return "REDIS_URL"
    return None
