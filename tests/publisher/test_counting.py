"""The length of a text as each service counts it, and where its links and hashtags are."""

from __future__ import annotations

from uuid import uuid4

import pytest

from publisher import connectors
from publisher.connectors import bluesky, counting, linkedin
from publisher.content import Content, Media
from tests.publisher import factories

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG = "\U0001f1ee\U0001f1f9"


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("Fresh bread", 11),
        ("Caffè", 5),
        ("Caffe\u0300", 5),  # composed before it is counted
        ("日本語", 6),
        ("\u201cquoted\u201d", 8),  # these quotation marks are light
        ("\U0001f35e", 2),
        (FAMILY, 2),
        (FLAG, 2),
        ("1\ufe0f\u20e3", 2),
        ("123", 3),
        ("https://acme.test/a/very/long/path?with=much&more=1", 23),
        ("http://acme.test", 23),
        ("see https://acme.test/.", 28),
        ("see acme.com now", 31),
        ("acme.com/menu", 23),
        ("ann@acme.com", 12),
        ("end.Next sentence", 17),
        ("", 0),
    ],
)
def test_the_weighted_length_of_x(text: str, length: int) -> None:
    assert counting.weighted(text) == length


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("Fresh bread", 11), (FAMILY, 1), (FLAG * 2, 2), ("日本語", 3), ("e\u0300", 1),
        ("https://acme.test/a/very/long/path?with=much", 23), ("acme.com", 8),
        ("@ann@social.example.org hello", 10), ("ann@acme.com", 12),
    ],
)  # fmt: skip
def test_the_length_of_mastodon(text: str, length: int) -> None:
    assert counting.shortened(text) == length


def test_graphemes() -> None:
    assert [counting.graphemes(text) for text in ("", "ab", FAMILY, "e\u0300", "\r\n")] == [
        0, 2, 1, 1, 1,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("channel", "fits", "not_any_more"),
    [
        ("x", "x" * 280, "x" * 281),
        ("x", "日" * 140, "日" * 141),
        ("x", "x" * 256 + " https://acme.test/" + "y" * 300, "x" * 257 + " https://acme.test/"),
        ("mastodon", "x" * 500, "x" * 501),
        ("mastodon", "x" * 476 + " https://acme.test/" + "y" * 300, "x" * 477 + " https://a.test"),
        ("bluesky", FAMILY * 160, "x" * 301),
        ("bluesky", "x" * 300, FAMILY * 167),  # 3,006 bytes
        ("linkedin", "x" * 3000, "x" * 3001),
    ],
)
def test_a_limit_holds_at_its_edge(channel: str, fits: str, not_any_more: str) -> None:
    connector = connectors.of(channel)
    assert connector.faults(factories.post(channel, fits)) == []
    [fault] = connector.faults(factories.post(channel, not_any_more))
    assert fault.field == "caption" and "the channel takes" in fault.message


def test_a_link_below_the_text_counts() -> None:
    link = "https://acme.test/menu"
    post = factories.post("x", "x" * 255, link=link)
    assert connectors.of("x").length(post) == 280
    assert connectors.of("x").preview(post)["text"] == f"{'x' * 255}\n\n{link}"
    assert connectors.of("x").faults(factories.post("x", "x" * 256, link=link)) != []
    named = factories.post("mastodon", f"See {link}", link=link)
    assert connectors.of("mastodon").preview(named)["status"] == f"See {link}"


def test_facets_are_at_their_bytes() -> None:
    text = f"Caffè {FLAG} https://acme.test/a#b, #pane and #42 mail@acme.test"
    found = bluesky.facets_of(text)
    shown = [
        text.encode()[one["index"]["byteStart"] : one["index"]["byteEnd"]].decode() for one in found
    ]
    assert shown == ["https://acme.test/a#b", "#pane"]
    assert [one["features"][0].get("tag") for one in found] == [None, "pane"]


@pytest.mark.django_db
def test_keys_of_records_sort_by_time() -> None:
    made = [bluesky.new_tid() for _ in range(50)]
    assert len(set(made)) == 50 and {len(one) for one in made} == {13}
    assert sorted(one[:9] for one in made) == [one[:9] for one in made]


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("Open (again) @ 7 <now>", "Open \\(again\\) \\@ 7 \\<now\\>"),
        ("#bread costs #1 or # 2", "#bread costs #1 or \\# 2"),
        ("a_b *c* ~d~ [e] {f} |g| \\", "a\\_b \\*c\\* \\~d\\~ \\[e\\] \\{f\\} \\|g\\| \\\\"),
    ],
)
def test_linkedin_gets_what_it_reserves_escaped(text: str, sent: str) -> None:
    assert linkedin.escaped(text) == sent
    assert linkedin._plain(sent) == text


@pytest.mark.parametrize("channel", ["mastodon", "x"])
@pytest.mark.parametrize(
    ("kinds", "is_taken"),
    [
        (["image"] * 4, True),
        (["image"] * 5, False),
        (["video"], True),
        (["video", "image"], False),
        (["video"] * 2, False),
    ],
)
def test_a_short_post_has_up_to_four_images_or_one_video(
    channel: str, kinds: list[str], is_taken: bool
) -> None:
    media = [Media.model_validate({"asset": uuid4(), "kind": kind}) for kind in kinds]
    found = connectors.of(channel).faults(Content(media=media))
    assert ({one.field for one in found} == set()) is is_taken, found


@pytest.mark.parametrize("channel", ["mastodon", "x"])
def test_an_empty_short_post_is_refused(channel: str) -> None:
    assert connectors.of(channel).faults(Content()) != []
