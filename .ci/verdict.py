"""What the gate says in the end: failed tests tried once more, the budget, and every failure."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lanes import CHECKOUT, Run, Tier, environment, say

BUDGET: Mapping[str, float] = {
    "setup": 4,
    "check": 1,
    "tests": 22,
    "newest Django": 7,
    "slow": 36,
    "browser": 27,
    "stock servers": 10,
    "PgBouncer": 4,
    "oldest versions": 7,
}
"""Core-minutes of five apps: 59 minutes on 2 processors."""
TOLERANCE = 4 / 3
MOST_FLAKY = 3
MOST_REPEATED = 10
"""Where more tests fail than that, they are broken and not flaky."""
# These look for what goes wrong one time in many: a second, quiet run proves nothing.
STRICT = re.compile(r"(?<![a-z])(chaos|attacks?|races?|invariants?)(?![a-z])|/operate/doctor/")
FAILING = re.compile(r"(?:FAILED|ERROR) \S+\.py|\S+: error:|make: \*\*\*")
RESULT = re.compile(r"=*\s*(\d+ (?:passed|failed|error).* in [\d.]+s.*?)\s*=*$")


@dataclass
class Verdict:
    """Judges what has run; ``passed`` is the outcome."""

    ended: Sequence[Run]
    waiting: Sequence[Tier]
    output: Path
    flaky: list[str] = field(default_factory=list)
    forgiven: list[Run] = field(default_factory=list)

    def failed(self) -> list[Run]:
        return [run for run in self.ended if run.code and run not in self.forgiven]

    def passed(self) -> bool:
        few = len(self.flaky) <= MOST_FLAKY
        return not (self.failed() or self.waiting or self.too_expensive()) and few

    def repeat(self) -> None:
        """Run failed tests once more, each alone; those that pass then are flaky."""
        for run in self.ended:
            tests = failed_tests(run, self.output) if run.code else []
            if not 0 < len(tests) <= MOST_REPEATED or any(map(STRICT.search, tests)):
                continue
            passed = [test for test in tests if repeat(run.tier, test, self.output)]
            self.flaky += [f"{test}  ({run.tier.name})" for test in passed]
            if passed == tests:
                self.forgiven.append(run)

    def spent(self) -> dict[str, float]:
        """Return the core-minutes of each share that was used."""
        shares: dict[str, float] = {}
        for run in self.ended:
            shares[run.tier.share] = shares.get(run.tier.share, 0.0) + run.core_minutes
        return shares

    def too_expensive(self) -> list[str]:
        return [name for name, used in self.spent().items() if used > BUDGET[name] * TOLERANCE]

    def tell(self) -> None:
        self._tell_budget()
        say("=== The gate")
        for run in self.ended:
            if not run.code:
                say(f"passed   {run.seconds:5.0f} s  {run.tier.name}{result(run)}")
        for run in self.forgiven:
            say(f"flaky    {run.seconds:5.0f} s  {run.tier.name}{result(run)}")
        for tier in self.waiting:
            say(f"NOT RUN            {tier.name}")
        for run in self.failed():
            say(f"FAILED   {run.seconds:5.0f} s  {run.tier.name}{result(run)}")
            for line in run.text().splitlines():
                if FAILING.match(line):
                    say(f"    {line}")
        for name in self.too_expensive():
            say(f"FAILED             over budget: {name}")
        if len(self.flaky) > MOST_FLAKY:
            say(f"FAILED             {len(self.flaky)} flaky tests, more than {MOST_FLAKY}")
        for test in self.flaky:
            say(f"FLAKY, to be mended: {test}")

    def _tell_budget(self) -> None:
        spent = self.spent()
        say("=== Core-minutes: wall-clock time, times the lanes used")
        for name, budget in BUDGET.items():
            over = "  OVER BUDGET" if name in self.too_expensive() else ""
            say(f"{spent.get(name, 0.0):6.1f} of {budget:3.0f}  {name}{over}")
        say(f"{sum(spent.values()):6.1f} of {sum(BUDGET.values()):3.0f}  in all\n")


def failed_tests(run: Run, output: Path) -> list[str]:
    """Return the tests that failed, or nothing where that is not all that went wrong."""
    wrong = [line for line in run.text().splitlines() if line.startswith("make: ***")]
    if any(not line.endswith("Error 1") for line in wrong):
        return []
    try:
        noted = json.loads((output / run.tier.slug / "v/cache/lastfailed").read_text())
    except (OSError, ValueError):
        return []
    return sorted(noted)


def repeat(tier: Tier, test: str, output: Path) -> bool:
    """Run one test of a tier, with nothing beside it, and return whether it passes."""
    say(f"... once more, alone: {test}")
    again = Tier(f"again {tier.slug}", "", tier.share)
    done = subprocess.run(
        [f"{tier.venv}/bin/python", "-m", "pytest", "-m", "", test],
        cwd=CHECKOUT,
        env={**environment(again, output, 0), **tier.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    say(done.stdout.decode(errors="replace").rstrip())
    return done.returncode == 0


def result(run: Run) -> str:
    """Return pytest's own last line."""
    found = [match[1] for line in run.text().splitlines() if (match := RESULT.match(line))]
    return f": {found[-1]}" if found else ""
