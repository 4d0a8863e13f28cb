"""What another library's jobs do: they leave a file."""

from pathlib import Path


def leave(folder: str, name: str) -> str:
    (Path(folder) / name).touch()
    return name


def fail(folder: str) -> None:
    raise ValueError(folder)
