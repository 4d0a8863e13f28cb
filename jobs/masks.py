"""Masks: how protected values are shown where people only need to recognise them."""

from __future__ import annotations

HIDDEN = "***"
"""Stands for a value of which nothing is shown."""


def mask(value: object, keep: int = 0) -> str:
    """The value hidden, but for its last ``keep`` characters where it has three times as many."""
    text = "" if value is None else str(value)
    if keep <= 0 or len(text) < keep * 3:
        return HIDDEN
    return HIDDEN + text[-keep:]


def mask_email(address: object) -> str:
    """``user@example.com`` as ``u***@e***.com``."""
    name, at, domain = str(address).strip().rpartition("@")
    label, dot, _ = domain.partition(".")
    if not (name and at and label and dot):
        return HIDDEN
    return f"{name[0]}***@{label[0]}***.{domain.rpartition('.')[2]}"


def mask_document(number: object) -> str:
    """``123.456.789-09`` as ``***.***.***-09``: the last two characters stay, and the shape."""
    text = str(number).strip()
    if sum(map(str.isalnum, text)) < 8:
        return HIDDEN
    return "".join("*" if c.isalnum() else c for c in text[:-2]) + text[-2:]
