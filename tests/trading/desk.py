"""A fleet of real processes that import, label and write digests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from config.standins.trading import Account, Coinbase, new_account
from tests.integration.fleet import CHECKOUT, QUICK, Fleet, Program
from tests.integration.realtime.site import Site
from tests.trading.factories import AI_KEY, AI_SECRET
from tests.wait import wait_until

QUEUES = "--queues=q_import,q_score,q_sim,q_digest"


class Desk:
    """A fleet, the venue that its workers ask, and where they find the AI service."""

    def __init__(self, fleet: Fleet, venue: Coinbase, folder: Path) -> None:
        self.fleet, self.venue = fleet, venue
        self.trading: dict[str, Any] = {"COINBASE_URL": venue.url, "HEURISTICS_ONLY": True}
        self.blobs = folder / "blobs"
        self._stage: Program | None = None
        self.jobs = {
            **QUICK, "HTTP_ALLOW": ["127.0.0.0/8"],
            "BLOBS": {"STORE": "local", "ROOT": str(self.blobs)},
        }  # fmt: skip

    @property
    def env(self) -> dict[str, str]:
        return {"FLEET_APPS": "trading", "FLEET_TRADING": json.dumps(self.trading)}

    def web(self) -> Site:
        """Start a web server with the AI service, which the workers after it will ask."""
        signed = {"AI_HMAC_KEY_ID": AI_KEY, "AI_HMAC_SECRET": AI_SECRET}
        served = {**self.trading, **signed, "AI_KEYS": {AI_KEY: AI_SECRET}}
        env = {**self.env, "FLEET_TRADING": json.dumps(served)}
        site = Site(self.fleet, jobs=self.jobs, env=env)
        del self.trading["HEURISTICS_ONLY"]
        self.trading |= {**signed, "AI_BASE_URL": f"http://127.0.0.1:{site.port}/ai"}
        return site

    def start(self, crash: str = "") -> Program:
        """Start a dispatcher and a worker."""
        self.fleet.dispatcher(env=self.env, jobs=self.jobs)
        return self.worker(crash)

    def worker(self, crash: str = "") -> Program:
        return self.fleet.worker(QUEUES, env={**self.env, "FLEET_CRASH": crash}, jobs=self.jobs)

    def account(self) -> Account:
        """An account of the venue with the trades of the plan."""
        account = self.venue.add(new_account())
        account.fills = self.venue.market.fills()
        return account

    def stage(self, what: str, *arguments: Any) -> Any:
        """Run a step of ``tests.trading.stage`` in a process of its own; return its answer."""
        if self._stage is None:
            self._stage = self._open_stage()
        line = self._stage.ask(json.dumps([what, arguments]))
        assert line, self._stage.logged()[-2000:]
        return json.loads(line)

    def _open_stage(self) -> Program:
        log = self.fleet.folder / "stage.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.trading.stage"],
                cwd=CHECKOUT, env=self.fleet._environment(self.jobs, self.env),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
            )  # fmt: skip
        made = Program("stage", process, log)
        self.fleet.programs.append(made)  # which ends it with the others
        return made

    def imported(self) -> int:
        """Link an account with the plan's trades and start its import; return the user."""
        account = self.account()
        user, self.job = self.stage("import", account.name, account.secret)
        return int(user)

    def rows(self, statement: str, *given: Any) -> list[Any]:
        return [row[0] if len(row) == 1 else row for row in self.fleet.query(statement, given)]

    def await_scored(self, user: int, timeout: float = 60) -> None:
        wait_until(lambda: self.rows(SCORED, user) == [1], timeout, 0.1, "the scoring is done")


LABELS = (
    "SELECT label FROM trading_tag t JOIN trading_trade r ON r.id = t.trade_id "
    "WHERE t.user_id = %s AND is_current ORDER BY r.ts"
)
SCORED = "SELECT count(*) FROM trading_score WHERE user_id = %s AND state = 'DONE'"
RUN = "SELECT state, pages, fetched, stored, conflicts FROM trading_import WHERE user_id = %s"
TOLD = "SELECT payload->>'tradeId' FROM jobs_feed WHERE topic = 'coach.reflect' AND tenant = %s"
PERCENTS = (
    "SELECT (payload->>'percent')::int FROM jobs_feed WHERE topic = 'import.progress' "
    "AND tenant = %s ORDER BY position"
)
DIGESTS = "SELECT sha256, payload::text FROM trading_digest WHERE user_id = %s"
READY = "SELECT payload->>'digestId' FROM jobs_feed WHERE topic = 'digest.ready' AND tenant = %s"
