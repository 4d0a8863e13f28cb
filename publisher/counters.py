"""The counters below the text of a plan: how long it is on each channel, while it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from publisher import channels, connectors, drafts, plan_verbs
from publisher.errors import Refused


def of_form(
    given: Mapping[str, str], names: Iterable[str], brand_id: Any = None
) -> list[dict[str, Any]]:
    """Return a line for each channel with a limit; nothing for what cannot be read yet."""
    try:
        draft = drafts.read({
            "caption": given.get("caption", ""), "title": given.get("headline", ""),
            "link": given.get("link", ""),
            "placeholders": plan_verbs.values_of(given.get("placeholders", "")),
        })  # fmt: skip
    except Refused:
        return []
    known = {name: connectors.of_brand(name, brand_id) for name in names}
    return [_line(name, one, draft.on(name).filled()) for name, one in known.items() if one.limit]


def _line(channel: str, connector: connectors.Connector, post: Any) -> dict[str, Any]:
    length, limit = connector.length(post), connector.limit or 0
    words = _("%(channel)s: %(length)s of %(limit)s")
    if length > limit:
        words = _("%(channel)s: %(length)s of %(limit)s, %(over)s too many")
    label = channels.label(channel)
    shown = {"channel": label, "length": length, "limit": limit, "over": length - limit}
    return {"text": words % shown, "is_over": length > limit}
