"""Google Business Profile: posts of a location."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jobs
from jobs import effects
from publisher import config
from publisher.connectors.base import (
    EARLY,
    Connector,
    Published,
    Run,
    Taken,
    link_faults,
    media_faults,
    moment_of,
)
from publisher.connectors.client import MOST_PAGES, Api, bearer, id_of, rows_of
from publisher.content import Content
from publisher.errors import Action, Fault, ProviderError, Unclear

ACTIONS: dict[str, Action] = {
    "UNAUTHENTICATED": "token", "RESOURCE_EXHAUSTED": "later", "ABORTED": "retry",
    "UNAVAILABLE": "retry", "INTERNAL": "retry",
}  # fmt: skip
LATER = 60.0


class GoogleBusiness(Connector):
    """Publishes on a location."""

    limit, ratio, left_out = 1500, (0.8, 1.91), ("title",)
    images = Taken(("image/jpeg", "image/png"), 5_000_000)

    def faults(self, content: Content) -> list[Fault]:
        """Return why Google would not take the post."""
        found = self.too_long(content) + link_faults(content)
        found += media_faults(content, 1, ("image",), "Google takes one image")
        if not content.text.strip():
            found.append(Fault("caption", "the post is empty"))
        return found

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the body of the call."""
        return _body(content)

    def publish(self, run: Run) -> Published:
        """Publish the post."""
        base = run.account.base_url or config.settings().GOOGLE_BUSINESS_URL
        api = Api(run, "google", base, judge, bearer)
        path = f"v4/{run.account.remote_account}/localPosts"

        # What Google allows a location in a minute.
        edits = jobs.meter(f"publisher:google-edits:{run.account.pk}", "10/m", burst=10)

        def call() -> Any:
            edits.take()
            answer = api.post(path, json=_body(run.content))
            return {"id": id_of(answer, "name"), "url": str(answer.get("searchUrl", ""))[:2000]}

        def find(intent: effects.Intent) -> effects.Answer:
            page = ""
            for _ in range(MOST_PAGES):
                answer = api.get(path, pageSize=100, **({"pageToken": page} if page else {}))
                for post in rows_of(answer, "localPosts"):
                    made = moment_of(post.get("createTime"))
                    is_new = made is not None and made >= intent.intended_at - EARLY
                    if is_new and post.get("summary") == run.content.text:
                        url = str(post.get("searchUrl", ""))[:2000]
                        return effects.Happened({"id": id_of(post, "name"), "url": url})
                page = str(answer.get("nextPageToken", ""))
                if not page:
                    return effects.NotHappened()
            return effects.Unknown("the list of posts has no end")

        outcome = run.publish(call, find) or {}
        return Published(str(outcome.get("id", "")), str(outcome.get("url", "")))


def _body(content: Content) -> dict[str, Any]:
    found: dict[str, Any] = {
        "languageCode": config.settings().GOOGLE_BUSINESS_LANGUAGE, "summary": content.text,
        "topicType": "STANDARD",
    }  # fmt: skip
    if content.link:
        found["callToAction"] = {"actionType": "LEARN_MORE", "url": content.link}
    if content.media:
        found["media"] = [{"mediaFormat": "PHOTO", "sourceUrl": content.media[0].url}]
    return found


def judge(status: int, body: Mapping[str, Any]) -> ProviderError | Unclear:
    """Return what an error of Google means."""
    raw = body.get("error")
    error: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    name = str(error.get("status", ""))[:60]
    if status == 401:
        return ProviderError("token", f"google {name or status}")
    action = ACTIONS.get(name, "retry" if status == 409 else "permanent")
    return ProviderError(action, f"google {name or status}", LATER if action == "later" else 0)
