"""What of the project needs keys, and whether they are there: asked when the process starts."""

from __future__ import annotations

from collections.abc import Callable

from django.apps import apps

from jobs import conf, keyring, registry
from jobs.errors import ConfigError


def users_of_keys() -> list[str]:
    """The encrypted columns and the kinds with sensitive fields."""
    from jobs.fields.columns import encrypted_fields

    unused = () if conf.settings().WEBHOOKS else ("jobs.webhook",)
    models = [model for model in apps.get_models() if model._meta.label_lower not in unused]
    found = [str(field) for model in models for field in encrypted_fields(model)]
    for handler in registry.handlers():
        if not handler.payload.__pydantic_complete__:
            handler.payload.model_rebuild(raise_errors=False)  # names a type of a later module
        if handler.payload.__sensitive__:
            found.append(handler.kind)
    return found


def users_of_the_index_key() -> list[str]:
    """The blind indexes."""
    from jobs.fields.indexes import BlindIndexField

    return [
        str(field)
        for model in apps.get_models()
        for field in model._meta.local_concrete_fields
        if isinstance(field, BlindIndexField)
    ]


def key_problem() -> str:
    """Why what is encrypted cannot be; empty when all is well."""
    return _problem(users_of_keys(), keyring.ring)


def index_key_problem() -> str:
    """Why what is indexed cannot be; empty when all is well."""
    return _problem(users_of_the_index_key(), keyring.index_key)


def _problem(users: list[str], load: Callable[[], object]) -> str:
    if not users:
        return ""
    try:
        load()
    except ConfigError as error:
        more = f" and {len(users) - 1} more" if len(users) > 1 else ""
        return f"{error} (for {users[0]}{more})"
    return ""


def require_keys() -> None:
    """Every key that the project needs is there and sound; raises a ConfigError otherwise."""
    for problem in (key_problem(), index_key_problem()):
        if problem:
            raise ConfigError(problem)
