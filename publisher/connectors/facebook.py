"""Facebook pages: a text with a link, a photo, or a video."""

from __future__ import annotations

from typing import Any

from jobs import effects
from publisher.connectors import graph
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
from publisher.connectors.client import id_of
from publisher.content import Content
from publisher.errors import Fault


class FacebookPage(Connector):
    """Publishes on a page."""

    limit, ratio, left_out = 63206, (0.7, 1.91), ("title",)
    images = Taken(("image/jpeg", "image/png", "image/gif"), 4_000_000)

    def faults(self, content: Content) -> list[Fault]:
        """Return why the page would not take the post."""
        found = self.too_long(content) + link_faults(content)
        found += media_faults(content, 1, ("image", "video"), "Facebook takes a photo or a video")
        if content.media and content.link:
            found.append(Fault("link", "a post with a photo or a video has no link"))
        if not (content.text.strip() or content.link or content.media):
            found.append(Fault("caption", "the post is empty"))
        return found

    def preview(self, content: Content) -> dict[str, Any]:
        """Return the path and the body of the call."""
        path, body = _call(content)
        return {"edge": path, **body}

    def publish(self, run: Run) -> Published:
        """Publish the post."""
        api, page = graph.api_of(run), run.account.remote_account
        edge, body = _call(run.content)

        def call() -> Any:
            answer = api.post(f"{page}/{edge}", data=body)
            return {"id": id_of(answer, "post_id" if "post_id" in answer else "id")}

        def find(intent: effects.Intent) -> effects.Answer:
            for post in graph.each(api, f"{page}/feed", fields="id,message,created_time"):
                made = moment_of(post.get("created_time"))
                if made is None:
                    continue
                if made < intent.intended_at - EARLY:
                    break
                if run.content.text and post.get("message") == run.content.text:
                    return effects.Happened({"id": id_of(post)})
            if not run.content.text or edge == "videos":
                return effects.Unknown("the page's feed does not show it for certain")
            return effects.NotHappened()

        remote = str((run.publish(call, find) or {}).get("id", ""))
        return Published(remote, run.link(f"https://www.facebook.com/{remote}", remote))


def _call(content: Content) -> tuple[str, dict[str, str]]:
    if not content.media:
        body = {"message": content.text, "link": content.link}
        return "feed", {name: text for name, text in body.items() if text}
    [media] = content.media
    if media.kind == "video":
        return "videos", {"file_url": media.url, "description": content.text}
    alt = {"alt_text_custom": media.alt_text} if media.alt_text else {}
    return "photos", {"url": media.url, "caption": content.text, **alt}
