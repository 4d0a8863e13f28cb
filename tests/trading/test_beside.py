"""What ``make run`` starts beside the project while nothing is configured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from config.standins import beside as standins_beside
from config.standins.trading import Account, Coinbase
from tests.wait import wait_until

CHECKOUT = Path(__file__).resolve().parents[2]
NAMES = (
    "COINBASE_URL", "AI_BASE_URL", "AI_HMAC_KEY_ID", "AI_HMAC_SECRET", "HTTP_ALLOW",
    "FEATURE_BINANCE", "BINANCE_URL",
)  # fmt: skip
BESIDE = [sys.executable, "-m", "config.standins.beside", "--port", "8123"]
CHILD = """
import json, os, sys, urllib.error, urllib.request
url = os.environ.get("COINBASE_URL", "")
status = 0
if url.startswith("http://127"):
    try:
        urllib.request.urlopen(url + "/api/v3/brokerage/key_permissions")
    except urllib.error.HTTPError as error:
        status = error.code
print(json.dumps([{name: os.environ.get(name, "") for name in sys.argv[1:]}, status]))
sys.exit(7)
"""


def beside(folder: Path, **more: str) -> tuple[str, dict[str, str], int]:
    """What the wrapper says, what the command finds in its environment, and the venue's answer."""
    known = {name: value for name, value in os.environ.items() if name not in NAMES}
    known.pop("DATABASE_URL", None)
    (folder / "child.py").write_text(CHILD)
    done = subprocess.run(
        [*BESIDE, str(folder / "child.py"), *NAMES],
        cwd=CHECKOUT, env={**known, "JOBDESK_DATA": str(folder), **more}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    said, _, last = done.stdout.rstrip().rpartition("\n")
    found: list[Any] = json.loads(last)
    return said, found[0], found[1]


def test_a_venue_and_the_ai_service_are_there_and_the_key_stays(tmp_path: Path) -> None:
    said, found, status = beside(tmp_path, HTTP_ALLOW="10.0.0.0/8")
    key = tmp_path / "standins" / "coinbase.pem"
    assert str(key) in said and "PRIVATE KEY" not in said
    assert status == 401, "the venue serves, and wants the key"
    assert found["AI_BASE_URL"] == "http://127.0.0.1:8123/ai" and found["AI_HMAC_SECRET"]
    assert found["HTTP_ALLOW"] == "10.0.0.0/8,127.0.0.0/8"
    assert found["FEATURE_BINANCE"] == "on" and found["BINANCE_URL"].startswith("http://127")
    files = [key, tmp_path / "standins" / "binance.key"]
    first = [file.read_text() for file in files]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 2
    beside(tmp_path)
    assert [file.read_text() for file in files] == first


@pytest.mark.parametrize(
    "settings",
    [{"DEBUG": "off"}, {"COINBASE_URL": "https://api.coinbase.com", "HEURISTICS_ONLY": "on"}],
)
def test_nothing_stands_in_for_what_is_configured(tmp_path: Path, settings: dict[str, str]) -> None:
    said, found, _ = beside(tmp_path, **settings)
    assert said == ""
    expected = {**dict.fromkeys(NAMES, ""), **settings}
    assert found == {name: expected[name] for name in NAMES}
    assert not (tmp_path / "standins").exists()


def test_a_signal_reaches_the_command(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    child = tmp_path / "child.py"
    child.write_text(
        "import pathlib, signal, sys; signal.signal(15, lambda *_: sys.exit(5)); "
        "pathlib.Path(sys.argv[1]).touch(); signal.pause()"
    )
    process = subprocess.Popen(
        [*BESIDE, str(child), str(mark)],
        cwd=CHECKOUT, env={**os.environ, "JOBDESK_DATA": str(tmp_path), "DEBUG": "off"},
    )  # fmt: skip
    try:
        wait_until(mark.exists, 30, 0.05, "the command runs")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 5
    finally:
        process.kill()


def test_the_venue_has_the_same_fills_all_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts it again later and imports sees no conflicts."""
    accounts: list[Account] = []
    real = Coinbase.add

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2030, 5, 17, 9 + 5 * len(accounts), 30, tzinfo=tz)

    def add(self: Coinbase, account: Account) -> Account:
        accounts.append(account)
        return real(self, account)

    monkeypatch.delenv("COINBASE_URL", raising=False)
    monkeypatch.setattr(standins_beside, "datetime", Clock)
    monkeypatch.setattr(Coinbase, "add", add)
    for _ in range(2):
        with standins_beside.venue(tmp_path, str):
            pass
    first, again = (account.fills for account in accounts)
    assert first == again and len(first) == 12
