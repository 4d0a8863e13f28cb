"""What commands print: a table, or JSON with everything."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model

from jobs.cli.table import table

HIDDEN = frozenset({"payload", "secret_hash", "previous_hash", "hash", "callbacks", "secrets"})
"""Never printed: payloads may be somebody's personal data."""
_WIDEST = 60


def as_data(found: Any) -> Any:
    """Something that ``operate`` answers, for JSON."""
    if isinstance(found, Model):
        names = [field.attname for field in found._meta.concrete_fields]
        return {name: getattr(found, name) for name in names if name not in HIDDEN}
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        fields = [field.name for field in dataclasses.fields(found)]
        return {name: as_data(getattr(found, name)) for name in fields if name not in HIDDEN}
    if isinstance(found, dict):
        return {str(key): as_data(value) for key, value in found.items()}
    if isinstance(found, list | tuple | set | frozenset):
        return [as_data(one) for one in found]
    return found


def say(text: str) -> None:
    """The text is on the terminal, now."""
    sys.stdout.write(text)
    sys.stdout.flush()


def say_json(found: Any) -> None:
    """Everything about it, as JSON."""
    say(json.dumps(as_data(found), indent=2, cls=DjangoJSONEncoder) + "\n")


def say_rows(found: Iterable[Any], columns: Sequence[str], is_json: bool, empty: str) -> None:
    """One line for each, of these columns; all there is as JSON."""
    rows = list(found)
    if is_json:
        say_json(rows)
    elif not rows:
        say(f"{empty}\n")
    else:
        head = [name.replace("_", " ").upper() for name in columns]
        say(table(head, [[word(getattr(row, name)) for name in columns] for row in rows]))


def say_one(found: Any, is_json: bool) -> None:
    """All its fields, one a line."""
    data = as_data(found)
    if is_json:
        say_json(found)
    elif isinstance(data, dict):
        say(table(("FIELD", "VALUE"), [(name, word(value, 0)) for name, value in data.items()]))
    elif data is not None:
        say(f"{word(data, 0)}\n")


def word(value: object, widest: int = _WIDEST) -> str:
    """The value on one line."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, dict | list | tuple | bool):
        text = json.dumps(as_data(value), cls=DjangoJSONEncoder)
    else:
        text = " ".join(str(value).split())
    return text if not widest or len(text) <= widest else text[: widest - 1] + "…"
