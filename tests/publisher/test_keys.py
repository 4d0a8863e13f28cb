"""Keys: unequal posts share none, equal ones have the same in any time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from publisher import keys
from publisher.content import Content

TEXT = st.text(max_size=20)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=0)
)
PARTS = st.tuples(TEXT, TEXT, MOMENTS, st.lists(TEXT, max_size=3), TEXT)


def key(parts: tuple[str, str, datetime, list[str], str]) -> str:
    brand, channel, at, media, caption = parts
    return keys.key_of(brand, channel, at, keys.media_hash(media), keys.caption_hash(caption, {}))


@settings(max_examples=50)
@given(PARTS, PARTS)
def test_unequal_posts_share_no_key(one: Any, other: Any) -> None:
    assert (key(one) == key(other)) == (one == other)


@given(TEXT, TEXT, st.integers(1, 10))
def test_where_a_part_ends_matters(brand: str, channel: str, at: int) -> None:
    joined = brand + channel
    moment = datetime(2031, 1, 1, tzinfo=UTC)
    cut = at % (len(joined) + 1)
    parts = (joined[:cut], joined[cut:], moment, list[str](), "")
    assert (key((brand, channel, moment, [], "")) == key(parts)) == (cut == len(brand))


@given(PARTS, st.integers(-12 * 60, 14 * 60))
def test_equal_posts_have_one_key_in_any_time_zone(parts: Any, minutes: int) -> None:
    brand, channel, at, media, caption = parts
    there = at.astimezone(timezone(timedelta(minutes=minutes)))
    assert key((brand, channel, there, media, caption)) == key(parts)


def test_media_keep_their_order_and_placeholders_count() -> None:
    assert keys.media_hash(["a", "b"]) != keys.media_hash(["b", "a"]) != keys.media_hash(["ab"])
    plain = Content(caption="Hello Ann")
    filled = Content(caption="Hello {{name}}", placeholders={"name": "Ann", "unused": "x"})
    assert plain.text == filled.text and filled.used == {"name": "Ann"}
    assert keys.caption_hash(plain.text, plain.used) != keys.caption_hash(filled.text, filled.used)


def test_comments_are_equal_without_tags_case_and_white_space() -> None:
    assert keys.comment_key("1", " Order  <b>NOW</b>\n") == keys.comment_key("1", "order now")
    assert keys.comment_key("1", "order now") != keys.comment_key("2", "order now")
    assert keys.comment_key("1", "order now") != keys.comment_key("1", "order later")
