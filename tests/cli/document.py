"""Writes the table of docs/cli.md: ``python -m tests.cli.document``."""

from __future__ import annotations

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).parents[2] / "docs" / "cli.md"
TITLE = "## Every command\n"


def table() -> str:
    """Every command with what it takes and what it does, as Markdown."""
    from jobs.management.commands.jobs import commands

    lines = ["| Command | Takes | What it does |", "|---|---|---|"]
    for verb in commands().values():
        parser = ArgumentParser(prog=verb.name)
        verb.add_arguments(parser)
        lines += [f"| `{name}` | {takes} | {words} |" for name, takes, words in _rows(parser, verb)]
    return "\n".join(lines) + "\n"


def _rows(parser: ArgumentParser, verb: object) -> Iterator[tuple[str, str, str]]:
    actions = [one for one in parser._actions if isinstance(one, _SubParsersAction)]
    if not actions:
        yield parser.prog, _takes(parser), _one_line(getattr(verb, "help", ""))
        return
    [several] = actions
    words = {one.dest: one.help or "" for one in several._choices_actions}
    for name, inner in several.choices.items():
        yield f"{parser.prog} {name}", _takes(inner), _one_line(words.get(name, ""))


def _takes(parser: ArgumentParser) -> str:
    found = []
    for one in parser._actions:
        if one.dest in ("help", "json"):
            continue
        if not one.option_strings:
            told = str(one.metavar or one.dest)
            found.append(f"[{told}]" if one.nargs in ("?", "*") else told)
        else:
            flag = one.option_strings[-1] + ("" if one.nargs == 0 else "=…")
            found.append(flag if one.required else f"[{flag}]")
    return " ".join(f"`{one}`" for one in found)


def _one_line(text: str) -> str:
    return " ".join(text.replace("%%", "%").replace("|", "\\|").split()).rstrip(".")


def written(text: str) -> str:
    """The document with the table that is true now."""
    return text.partition(TITLE)[0] + f"{TITLE}\n{table()}"


if __name__ == "__main__":
    import django

    django.setup()
    FILE.write_text(written(FILE.read_text()))
