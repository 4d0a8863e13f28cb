"""What a post consists of, and the text that appears on its channel."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from publisher.errors import Fault

Text = Annotated[str, StringConstraints(max_length=100_000)]
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]{0,63})\s*\}\}")


TEXTS = ("caption", "title", "link", "ig_first_comment")
"""The fields in which placeholders are filled."""


class Media(BaseModel):
    """An image or a video: an asset, or a public address from which the provider fetches it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(default="", max_length=2000)
    asset: UUID | None = None
    kind: Literal["image", "video"] = "image"
    content_type: str = Field(default="", max_length=50)
    """Such as image/jpeg; that of an asset is known."""
    checksum: str = Field(default="", max_length=128)
    alt_text: str = Field(default="", max_length=1000)

    @model_validator(mode="after")
    def _is_one(self) -> Media:
        if bool(self.url) == (self.asset is not None):
            raise ValueError("needs either a url or an asset")
        return self

    @property
    def mark(self) -> str:
        """Return what tells it from other media."""
        return self.checksum or self.url


class Content(BaseModel):
    """A post as it is accepted, for one channel."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["publish", "ig_first_comment"] = "publish"
    caption: Text = ""
    title: str = Field(default="", max_length=500)
    link: str = Field(default="", max_length=2000)
    media: list[Media] = Field(default_factory=list, max_length=10)
    placeholders: dict[str, Annotated[str, StringConstraints(max_length=5000)]] = Field(
        default_factory=dict, max_length=100
    )
    ig_first_comment: str = Field(default="", max_length=2200)
    media_id: str = Field(default="", max_length=100)
    """The post to comment on, where the type is ``ig_first_comment``."""
    privacy: Literal["public", "unlisted", "private"] = "public"
    """Who sees a video on TikTok or YouTube."""
    preview: bool = False

    @property
    def text(self) -> str:
        """Return the caption with its placeholders filled."""
        return self._fill(self.caption)

    def _fill(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda m: self.placeholders.get(m[1], m[0]), text)

    def filled(self) -> Self:
        """Return the post with its placeholders filled, wherever it has text."""
        texts = {name: self._fill(getattr(self, name)) for name in TEXTS}
        return self.model_copy(update={**texts, "caption": self.text})

    @property
    def used(self) -> dict[str, str]:
        """Return the placeholders that the caption uses."""
        names = set(_PLACEHOLDER.findall(self.caption))
        return {name: text for name, text in self.placeholders.items() if name in names}

    @property
    def unfilled(self) -> list[tuple[str, str]]:
        """Return the placeholders without a value, each after the field that it is in."""
        found = [(field, name) for field in TEXTS for name in _names(getattr(self, field))]
        return [(field, name) for field, name in found if name not in self.placeholders]

    @property
    def assets(self) -> set[UUID]:
        """Return the assets that it shows."""
        return {one.asset for one in self.media if one.asset is not None}

    def stored(self) -> dict[str, Any]:
        """Return what the publication keeps: the text as it will appear."""
        made = self.filled().model_dump(mode="json", exclude_defaults=True, exclude={"preview"})
        return {**made, "caption": self.text}


def problems(content: Content) -> list[Fault]:
    """Return what is wrong with a post on any channel."""
    return [Fault(field, f"{{{{{name}}}}} has no value") for field, name in content.unfilled]


def _names(text: str) -> dict[str, None]:
    """Return the placeholders in a text, in their order."""
    return dict.fromkeys(_PLACEHOLDER.findall(text))
