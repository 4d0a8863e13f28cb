"""``manage.py jobs doctor``: check the invariants and the surroundings."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.db import Error

from jobs.cli.table import table
from jobs.cli.verb import Options, Verb, positive_int
from jobs.operate import doctor
from jobs.operate.doctor import Violation
from jobs.operate.environment import Finding, findings
from jobs.operate.invariants import Invariant

SOUND, VIOLATED, UNCHECKED = 0, 1, 2
"""Exit codes."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument("--strict", action="store_true", help="warnings fail, too")
    parser.add_argument(
        "--depth",
        type=positive_int,
        default=doctor.DEPTH,
        metavar="N",
        help=f"read the newest N jobs where whole rows are looked at (default: {doctor.DEPTH})",
    )


class _Report:
    """What the doctor has found so far."""

    def __init__(self) -> None:
        self.violations: list[tuple[Invariant, Violation]] = []
        self.unchecked: list[tuple[str, str]] = []
        self.findings: list[Finding] = []

    def look(self, depth: int) -> None:
        try:
            self.findings.extend(findings())
        except Error as error:
            self.unchecked.append(("surroundings", _line(error)))
            return
        for invariant in doctor.EVERY:
            try:
                found = doctor.check(invariant, depth)
            except Error as error:
                self.unchecked.append((invariant.name, _line(error)))
            else:
                self.violations.extend((invariant, violation) for violation in found)

    def code(self, strict: bool) -> int:
        bad = ("error", "warning") if strict else ("error",)
        if self.violations or any(finding.level in bad for finding in self.findings):
            return VIOLATED
        return UNCHECKED if self.unchecked else SOUND


def run(options: Options) -> int:
    report = _Report()
    report.look(options["depth"])
    code = report.code(options["strict"])
    sys.stdout.write(_as_json(report, code) if options["json"] else _as_text(report, code))
    return code


def _as_json(report: _Report, code: int) -> str:
    content: dict[str, Any] = {
        "code": code,
        "surroundings": [asdict(finding) for finding in report.findings],
        "violations": [
            {**asdict(violation), "statement": invariant.statement, "remedy": invariant.remedy}
            for invariant, violation in report.violations
        ],
        "unchecked": [{"name": name, "error": error} for name, error in report.unchecked],
    }
    return json.dumps(content, indent=2) + "\n"


def _as_text(report: _Report, code: int) -> str:
    parts = [
        table(("SURROUNDINGS", "", ""), [(f.name, f.level, f.detail) for f in report.findings])
    ]
    broken = {invariant.name: invariant for invariant, _ in report.violations}
    failed = {name for name, _ in report.unchecked}
    words = [(i.name, _word(i.name, broken, failed), i.statement) for i in doctor.EVERY]
    parts.append(table(("INVARIANT", "", ""), words))
    if report.violations:
        rows = [(v.invariant, v.subject, v.detail) for _, v in report.violations]
        parts.append(table(("VIOLATED", "BY", ""), rows))
    if report.unchecked:
        parts.append(table(("NOT CHECKED", ""), report.unchecked))
    advice = [(f.name, f.remedy) for f in report.findings if f.remedy]
    advice += [(i.name, i.remedy) for i in broken.values()]
    if advice:
        parts.append(table(("WHAT TO DO", ""), advice))
    warned = sum(finding.level == "warning" for finding in report.findings)
    parts.append(_WARNED if code == SOUND and warned else _VERDICTS[code])
    return "\n".join(parts)


_WARNED = "Nothing is broken, but there are warnings: see above.\n"
_VERDICTS = {
    SOUND: "Everything is as it should be.\n",
    VIOLATED: "Something is wrong: see above.\n",
    UNCHECKED: "Not everything could be checked: see above.\n",
}


def _word(name: str, broken: dict[str, Invariant], unchecked: set[str]) -> str:
    return "VIOLATED" if name in broken else "?" if name in unchecked else "holds"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


VERB = Verb("doctor", "check the invariants and the surroundings", add_arguments, run)
