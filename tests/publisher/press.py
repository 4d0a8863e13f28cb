"""A fleet whose workers publish at the stand-in, and what has become of its posts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.standins.publisher import Standin
from tests.integration.fleet import CHECKOUT, Fleet, Program
from tests.wait import wait_until

LOCAL = {"HTTP_ALLOW": ["127.0.0.0/8"]}


@dataclass(frozen=True)
class Post:
    """A post that was handed in."""

    id: str
    channel: str
    mark: str
    brand: int


class Press:
    """Workers that publish, a stand-in for all providers, and a folder for the plan of deaths."""

    def __init__(self, fleet: Fleet, standin: Standin, folder: Path) -> None:
        self.fleet, self.standin, self.folder = fleet, standin, folder
        settings = {
            "GOOGLE_TOKEN_URL": f"{standin.url}/oauth", "GOOGLE_CLIENT_ID": "us", "TIMEOUT": 5,
        }  # fmt: skip
        self.env = {
            "FLEET_APPS": "publisher", "FLEET_PUBLISHER": json.dumps(settings),
            "FLEET_KILLS": str(folder),
        }  # fmt: skip

    def hand_in(
        self,
        channels: Sequence[str],
        brands: int = 1,
        sizes: Mapping[str, int] | None = None,
        closed: Sequence[int] = (),
        first: int = 0,
    ) -> list[Post]:
        """Posts of these channels, the brands in turn; some brands have a blackout.

        ``first`` numbers the first brand and post.
        """
        return [
            Post(*one)
            for one in self._do({
                "channels": channels, "brands": brands, "url": self.standin.url,
                "sizes": sizes or {}, "closed": closed, "first": first,
            })
        ]  # fmt: skip

    def reopen(self) -> None:
        """End all blackouts."""
        self._do({})

    def _do(self, asked: Mapping[str, Any]) -> list[Any]:
        done = subprocess.run(
            [sys.executable, "-m", "tests.publisher.hand_in", json.dumps(asked)],
            cwd=CHECKOUT, env=self.fleet._environment(LOCAL, self.env), capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        return list(json.loads(done.stdout))

    def start(self, processes: int, concurrency: int = 1) -> Program:
        """A dispatcher, and a worker with so many processes."""
        self.fleet.dispatcher(env=self.env, jobs=LOCAL)
        return self.fleet.worker(
            f"--concurrency={concurrency}", f"--processes={processes}", "--queues=publisher",
            env=self.env, jobs=LOCAL,
        )  # fmt: skip

    def plan_death(self, post: Post, point: str, number: int, when: str) -> None:
        """Whoever comes there with the post dies."""
        (self.folder / f"{post.id}.plan").write_text(json.dumps([point, number, when]))

    def has_killed(self, post: Post) -> bool:
        return (self.folder / f"{post.id}.dead").exists()

    def count(self, post: Post, point: str) -> int:
        """How often the post has come there, in whatever process."""
        return (self.folder / f"{post.id}.{point}").stat().st_size

    def unfinished(self, brand: str = "%") -> int:
        """How many posts of a brand, or of all, have not come to an end, as job and as row.

        A row follows the end of its job a moment later.
        """
        return int(
            self.fleet.value(
                "SELECT count(*) FROM publisher_publication p JOIN jobs_job j ON j.id = p.id "
                "WHERE p.tenant LIKE %s AND (p.status IN ('pending', 'running') OR j.state NOT IN "
                "('succeeded', 'failed', 'cancelled', 'expired'))", [brand],
            )
        )  # fmt: skip

    def await_end(self, timeout: float) -> None:
        wait_until(lambda: not self.unfinished(), timeout, 0.1, "every post has come to an end")

    def ends(self) -> dict[str, str]:
        """How each post has ended, by its id: completed, or why not. Rows agree with jobs."""
        found = self.fleet.query(
            "SELECT p.id::text, p.status, p.reason, j.state, j.reason, p.error, p.remote_id "
            "FROM publisher_publication p LEFT JOIN jobs_job j ON j.id = p.id"
        )
        for pk, status, reason, state, why, error, remote in found:
            ends = {"completed": "succeeded", "failed": "failed"}
            assert ends.get(status) == state, (pk, status, reason, state, why, error)
            assert (reason == "in_doubt") == (why == "in_doubt"), (pk, reason, why, error)
            assert status == "completed" or not remote, (pk, status, remote)
        return {row[0]: row[2] or row[1] for row in found}

    def appeared(self, posts: Sequence[Post]) -> Counter[str]:
        """How often each post can be seen at the stand-in, by its id."""
        shown = [json.dumps(one) for rows in self.standin.posts.values() for one in list(rows)]
        text = "\n".join(shown)
        return Counter({post.id: _lines_with(text, post.mark) for post in posts})


def _lines_with(text: str, mark: str) -> int:
    return sum(mark in line for line in text.split("\n"))
