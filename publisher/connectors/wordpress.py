"""WordPress blogs, through the REST API and an application password."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from jobs import effects
from publisher.connectors.base import Connector, Published, Run
from publisher.connectors.client import Api, id_of
from publisher.content import Content
from publisher.errors import Action, Fault, ProviderError, Unclear
from publisher.models import Account

TITLE_LIMIT = 200
POSTS = "wp-json/wp/v2/posts"


class WordPress(Connector):
    """Publishes on a blog."""

    left_out = ("link", "media")
    needs_address = True

    def faults(self, content: Content) -> list[Fault]:
        """Return why the blog would not take the post."""
        found = []
        if not content.title.strip():
            found.append(Fault("title", "a blog post needs a title"))
        if len(content.title) > TITLE_LIMIT:
            found.append(Fault("title", f"has more than {TITLE_LIMIT} characters"))
        if not content.text.strip():
            found.append(Fault("caption", "the post is empty"))
        if content.media:
            found.append(Fault("media", "write images into the text of a blog post"))
        if content.link:
            found.append(Fault("link", "write links into the text of a blog post"))
        return found

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the body of the call."""
        return {"title": content.title, "content": content.text, "status": "publish"}

    def publish(self, run: Run) -> Published:
        """Publish the post under a slug of its own, by which it is found again."""
        api = Api(run, "wordpress", run.account.base_url, judge, _sign)
        slug = f"p-{run.row.pk.hex}"

        def call() -> Any:
            body = {**self.preview(run.content), "slug": slug}
            return _outcome(api.post(POSTS, json=body))

        def find(intent: effects.Intent) -> effects.Answer:
            known = api.get(POSTS, slug=slug, status="publish,future,draft,pending,private")
            if not isinstance(known, list):
                raise Unclear("the answer has no list")
            return effects.Happened(_outcome(known[0])) if known else effects.NotHappened()

        outcome = run.publish(call, find) or {}
        return Published(str(outcome.get("id", "")), str(outcome.get("url", "")))


def _outcome(answer: Any) -> dict[str, str]:
    return {"id": id_of(answer), "url": str(answer.get("link", ""))[:2000]}


def _sign(account: Account) -> Mapping[str, str]:
    pair = f"{account.remote_account}:{account.token}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def judge(status: int, body: Mapping[str, Any]) -> ProviderError | Unclear:
    """Return what an error of WordPress means."""
    code = str(body.get("code", ""))[:60]
    if status == 401:
        # This user may not publish: a new password would not help.
        action: Action = "permanent" if code == "rest_cannot_create" else "token"
        return ProviderError(action, f"wordpress {code or status}")
    return ProviderError("permanent", f"wordpress {code or status}")
