"""The publisher in the demo: a stand-in for all providers on loopback, and posts that meet it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import time, timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.db import connection
from django.test.utils import override_settings

from config.standins.publisher import Standin
from config.standins.publisher.server import Request
from jobs import demo, flow
from jobs.models import Job, Lease
from publisher import config, plan_verbs, plans, services
from publisher.clock import now
from publisher.content import Content
from publisher.models import Account, Brand, Plan, Publication

SERVICES = {
    "meta_facebook": "graph", "meta_instagram": "graph", "google_business": "google",
    "wordpress_blog": "blog", "youtube": "youtube", "tiktok": "tiktok",
}  # fmt: skip

LOOKS = 5
"""How often the demo looks at a blackout before it ends."""


class PostAct(demo.Act):
    """Posts of the demo's brand, and how they are to end."""

    queues = (config.QUEUE,)
    channels: ClassVar[Sequence[str]]
    place: ClassVar[str] = "demo"
    """How the ids of its accounts begin."""
    token: ClassVar[str] = "demo"  # noqa: S105  of the stand-in
    refresh_token: ClassVar[str] = ""
    brand: ClassVar[str] = "demo"
    wanted: ClassVar[str] = Publication.Status.COMPLETED
    _standin: ClassVar[Standin | None] = None
    _begun: ClassVar[list[PostAct]] = []
    _allowed: ClassVar[override_settings | None] = None

    def prepare(self) -> Mapping[str, str]:
        if PostAct._standin is not None:
            return {}
        PostAct._standin = Standin()
        PostAct._standin.start()
        # The posts are checked here, in a process that has read its environment already.
        allowed = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}
        PostAct._allowed = override_settings(JOBS=allowed)
        PostAct._allowed.enable()
        return {"HTTP_ALLOW": "127.0.0.0/8"}

    def begin(self) -> None:
        self._begun.append(self)
        self.post()

    def post(self) -> None:
        """Publish on each of its channels."""
        known = Brand.objects.filter(slug=self.brand).first()
        brand = known or services.create_brand(self.brand, self.brand.title())
        self.ids = [self._post(brand, channel) for channel in self.channels]

    def _post(self, brand: Brand, channel: str) -> Any:
        assert self._standin is not None  # noqa: S101  it was prepared
        base = self._standin.url
        account = Account.objects.create(
            brand=brand, tenant=brand.tenant, channel=channel, name=f"Demo {channel}",
            remote_account=f"{self.place}-{channel}-{self.mark}",
            base_url=f"{base}/{SERVICES[channel]}",
            token=self.token, refresh_token=self.refresh_token,
        )  # fmt: skip
        post: dict[str, Any] = {"caption": f"Fresh bread {self.mark}"}
        if channel in ("wordpress_blog", "youtube"):
            post["title"] = "Fresh bread"
        if channel == "meta_instagram":
            post["media"] = [{"url": f"{base}/media/1000.mp4", "kind": "video"}]
        if channel in ("youtube", "tiktok"):
            post["media"] = [{"url": f"{base}/media/20000000.mp4", "kind": "video"}]
        return self._publish(account, post)

    def _publish(self, account: Account, post: dict[str, Any]) -> Any:
        return services.enqueue(account, Content.model_validate(post)).row.pk

    def verdict(self) -> demo.Verdict:
        rows = list(Publication.objects.filter(pk__in=self.ids))
        standin = self._standin
        places = {"youtube": "youtube", "tiktok": "tiktok", "wordpress_blog": "blog"}
        appeared = 0
        for row in rows:
            place = places.get(row.channel, f"{self.place}-{row.channel}-{self.mark}")
            posts = [] if standin is None else standin.posts[place]
            ids = [str(post.get("name") or post["id"]) for post in posts]
            appeared += ids.count(row.remote_id) if row.remote_id else 0
        is_good = all(row.status == self.wanted for row in rows)
        expected = len(rows) if self.wanted == Publication.Status.COMPLETED else 0
        words = f"{appeared} of {len(rows)} have appeared"
        states = ", ".join(sorted({row.status for row in rows}))
        return is_good and appeared == expected, states, words

    def leave(self) -> None:
        if PostAct._standin is not None:
            PostAct._standin.stop()
            PostAct._standin = None
            PostAct._begun.clear()
        if PostAct._allowed is not None:
            PostAct._allowed.disable()
            PostAct._allowed = None


@demo.shown
class ThreeChannels(PostAct):
    title = "a post on three channels"
    channels = ("meta_facebook", "google_business", "wordpress_blog")


@demo.shown
class AReel(PostAct):
    title = "a reel"
    channels = ("meta_instagram",)


@demo.shown
class AVideo(PostAct):
    title = "a video in portions"
    channels = ("youtube",)


@demo.shown
class APlan(PostAct):
    title = "an approved plan"
    place = "plan"
    channels = ("meta_facebook", "google_business", "wordpress_blog")

    def begin(self) -> None:
        self._accounts: list[Account] = []
        super().begin()
        content = {"caption": f"A fresh plan {self.mark}", "title": "A fresh plan"}
        at = (now() + timedelta(seconds=3)).isoformat()
        places = [plans.Place(one.channel, at, one.pk) for one in self._accounts]
        made = plan_verbs.create_with("demo", f"Plan {self.mark}", content, places, by="ada")
        plan_verbs.submit(made.pk, by="ada")
        plan_verbs.approve(made.pk, by="bob")
        plan_verbs.schedule(made.pk, by="ada")
        self.plan_id = made.pk
        self.ids = list(made.slots.values_list("publication_id", flat=True))

    def _publish(self, account: Account, post: dict[str, Any]) -> Any:
        self._accounts.append(account)  # its slot comes with the plan

    def is_over(self) -> bool:
        return Plan.objects.get(pk=self.plan_id).status in ("published", "failed")

    def verdict(self) -> demo.Verdict:
        has_appeared, _, words = super().verdict()
        status = Plan.objects.get(pk=self.plan_id).status
        return has_appeared and status == Plan.Status.PUBLISHED, status, words


@demo.shown
class ATokenThatHasExpired(PostAct):
    title = "a token that has expired"
    channels = ("tiktok",)
    token = "demo-expired"  # noqa: S105  of the stand-in
    refresh_token = "demo-refresh"  # noqa: S105

    def begin(self) -> None:
        """The provider refuses the token; it is refreshed, and the post appears."""
        assert self._standin is not None  # noqa: S101  it was prepared
        self._standin.expired.add(self.token)
        self._standin.refreshes[self.refresh_token] = ""
        super().begin()


@demo.shown
class ASilentProvider(PostAct):
    title = "a provider that publishes and does not answer"
    channels = ("meta_instagram",)
    place = "demo-silent"
    _is_hurried = False

    def begin(self) -> None:
        """The line is cut after the post has appeared; its container shows that it has."""
        assert self._standin is not None  # noqa: S101  it was prepared
        self._standin.misbehave(f"{self.place}-meta_instagram-{self.mark}/media_publish", "drop")
        super().begin()

    def step(self) -> str:
        """Ask the provider now instead of a minute after the line was cut."""
        if self._is_hurried:
            return ""
        waits = Job.objects.filter(pk__in=self.ids, state="pending", failures__gt=0).first()
        if waits is None:
            return ""
        flow.run_now(waits.pk, by="demo", reason="to ask whether it has appeared")
        self._is_hurried = True
        return "a provider that did not answer is asked whether the post has appeared"

    def verdict(self) -> demo.Verdict:
        assert self._standin is not None  # noqa: S101  it was prepared
        is_good, states, words = super().verdict()
        there = len(self._standin.posts[f"{self.place}-meta_instagram-{self.mark}"])
        return is_good and there == 1, states, f"{words}, {there} at the provider"


@demo.shown
class ABlackout(PostAct):
    title = "a post that waits for the end of a blackout"
    channels = ("google_business",)
    brand = place = "demo-at-night"
    _window: int | None = None
    _looks = 0

    def begin(self) -> None:
        """Nothing of the brand is published until its window is taken away."""
        midnight = time(0)
        row = flow.create_blackout(
            f"tenant:brand:{self.brand}", midnight, midnight, by="demo", reason="it is night"
        )
        self._window = row.pk
        super().begin()

    def step(self) -> str:
        """Open the brand once the post has waited for a while."""
        self._looks += 1
        if self._window is None or self._looks < LOOKS:
            return ""
        assert self._standin is not None  # noqa: S101  it was prepared
        early = len(self._standin.posts[f"{self.place}-google_business-{self.mark}"])
        self._open()
        return f"the blackout ends; {early} of its posts appeared meanwhile"

    def _open(self) -> None:
        if self._window is not None:
            flow.delete_blackout(self._window, by="demo", reason="it is day")
            self._window = None

    def leave(self) -> None:
        self._open()
        super().leave()


@demo.shown
class AWorkerThatDies(PostAct):
    title = "a video whose worker dies"
    channels = ("youtube",)
    kills = True
    _portions = 0
    _killed = 0

    def begin(self) -> None:
        """The post follows when nobody else's can be hit; see ``step``."""
        self._begun.append(self)

    def step(self) -> str:
        """Publish once all other posts are over, and watch its upload."""
        others = [act for act in self._begun if act is not self]
        if self.ids or self._standin is None or not all(act.is_over() for act in others):
            return ""
        self._standin.script = self._look
        self.post()
        return "a worker dies in the middle of an upload"

    def _look(self, request: Request) -> str:
        """Kill the worker as the second portion of the video arrives."""
        if request.method == "PUT" and request.headers.get("Content-Range", "")[6:7] != "*":
            self._portions += 1
            if self._portions == 2:
                self._kill()
        return ""

    def _kill(self) -> None:
        try:
            owners = Job.objects.filter(pk=self.ids[0]).values("owner")
            for pid in Lease.objects.filter(owner__in=owners).values_list("pid", flat=True):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self._killed += 1
        finally:
            connection.close()  # that of a thread of the server

    def is_over(self) -> bool:
        return bool(self.ids) and super().is_over()

    def verdict(self) -> demo.Verdict:
        if not self.ids:
            return False, "not begun", "others were not over"
        is_good, states, words = super().verdict()
        # Two portions and the rest; the second one, which the kill cut off, may come twice.
        is_resumed = self._portions in (3, 4)
        words = f"{words}, in {self._portions} portions; {self._killed} worker killed"
        return is_good and is_resumed and self._killed == 1, states, words
