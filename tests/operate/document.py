"""Writes the table of docs/verbs.md: ``python -m tests.operate.document``."""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).parents[2] / "docs" / "verbs.md"
TITLE = "## Every verb\n"


def table() -> str:
    """Every verb of the platform and of the apps, from its declaration, as Markdown."""
    from jobs.operate import verbs

    lines = [
        "| Verb | What it does | Permission | Reason | Many | Group |",
        "|---|---|---|---|---|---|",
    ]
    for verb in sorted(verbs.every().values(), key=lambda one: (one.app != "jobs", one.name)):
        also = "".join(f", at times `{one}`" for one in verb.also)
        reason = "needed" if verb.needs_reason else "may be given" if verb.reason else "none"
        many = "yes" if verb.many else ""
        lines.append(
            f"| `{verb.name}` | {verb.summary} | `{verb.permission}`{also} | {reason} | {many} "
            f"| {verb.group} |"
        )
    return "\n".join(lines) + "\n"


def written(text: str) -> str:
    """The document with the table that is true now."""
    return text.partition(TITLE)[0] + f"{TITLE}\n{table()}"


if __name__ == "__main__":
    import django

    django.setup()
    FILE.write_text(written(FILE.read_text()))
