"""Images: decoded in a sandbox, and converted for channels that cannot take them as they are."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from PIL import Image, ImageCms

from config.standins.publisher import Standin
from jobs import blobs, sandbox
from jobs.testing import freeze_clock, run_jobs
from publisher import assets, checks, images, preflight, services
from publisher.drafts import Draft
from publisher.errors import Refused
from publisher.models import Account, Asset, Brand, Publication
from tests.api.conftest import Caller
from tests.publisher import factories
from tests.publisher.pictures import encoded, is_upright, noise, opened, picture
from tests.publisher.test_assets import ASSETS, announced, asset, caller, png, posted, send, store

__all__ = ["caller", "store"]  # fixtures
pytestmark = pytest.mark.django_db


def stored(store: blobs.Store, key: str) -> bytes:
    with store.read(key) as pieces:
        return b"".join(pieces)


def copy_of(brand: Brand, store: blobs.Store, data: bytes) -> bytes:
    """The copy of an image; nothing if every channel takes the image."""
    row = asset(brand, store, data)
    return stored(store, row.copy_blob) if row.copy_size else b""


@pytest.mark.parametrize(
    ("form", "mode"),
    [
        ("PNG", "RGB"), ("PNG", "RGBA"), ("PNG", "P"), ("PNG", "L"), ("PNG", "I;16"),
        ("PNG", "1"), ("GIF", "P"), ("WEBP", "RGB"), ("WEBP", "RGBA"), ("JPEG", "CMYK"),
    ],
)  # fmt: skip
def test_every_image_gets_a_jpeg_that_all_channels_take(
    form: str, mode: str, brand: Brand, store: blobs.Store
) -> None:
    made = copy_of(brand, store, picture(form, mode=mode))
    image = opened(made)
    assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (60, 80))
    assert is_upright(made) or mode in ("L", "I;16", "1")


def test_an_image_that_all_channels_take_is_left_as_it_is(brand: Brand, store: blobs.Store) -> None:
    data = picture()
    row = asset(brand, store, data)
    assert (row.copy_size, row.is_odd, stored(store, row.blob)) == (0, False, data)
    assert len(list(store.list())) == 1


def test_an_image_is_turned_upright_for_every_channel(brand: Brand, store: blobs.Store) -> None:
    data = picture(turned=6)
    assert not is_upright(data)
    row = asset(brand, store, data)
    assert is_upright(stored(store, row.copy_blob))
    assert (row.width, row.height) == (60, 80)  # as it is seen
    assert images.needs_copy(row, "meta_facebook") and images.needs_copy(row, "google_business")


def test_what_is_transparent_becomes_white(brand: Brand, store: blobs.Store) -> None:
    clear = encoded(Image.new("RGBA", (8, 8), (0, 0, 0, 0)), "PNG")
    assert opened(copy_of(brand, store, clear)).getpixel((4, 4)) == (255, 255, 255)


def test_colours_of_another_profile_are_converted(brand: Brand, store: blobs.Store) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    for icc in (profile, b"none"):  # neither is one of RGB, and the image is converted anyhow
        made = copy_of(brand, store, picture("PNG", icc_profile=icc))
        assert is_upright(made)
    linear = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    made = copy_of(brand, store, picture("PNG", icc_profile=linear))
    assert "icc_profile" not in opened(made).info and is_upright(made)


def test_nothing_but_the_picture_is_in_the_copy(brand: Brand, store: blobs.Store) -> None:
    made = opened(copy_of(brand, store, picture("WEBP", turned=6, xmp=b"45.07 N")))
    assert set(made.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    assert not made.getexif()


def test_the_limit_of_a_channel_holds_at_its_edge(brand: Brand, store: blobs.Store) -> None:
    row = asset(brand, store, picture())
    for channel, limit in (
        ("meta_instagram", 8_000_000), ("meta_instagram_stories", 8_000_000),
        ("meta_facebook", 4_000_000), ("google_business", 5_000_000),
    ):  # fmt: skip
        row.size = limit
        assert not images.needs_copy(row, channel)
        row.size = limit + 1
        assert images.needs_copy(row, channel)
        assert images.why_not(row, channel) and not images.why_not(row, "youtube")


def test_a_large_image_becomes_small(brand: Brand, store: blobs.Store) -> None:
    data = noise((2600, 1300), quality=97)
    assert len(data) > images.COPY_BYTES
    made = copy_of(brand, store, data)
    assert opened(made).size == (2048, 1024) and len(made) <= images.COPY_BYTES


@pytest.mark.parametrize("channel", ["meta_instagram", "meta_instagram_stories"])
def test_instagram_gets_the_jpeg_of_a_png(
    channel: str, accounts: dict[str, Account], brand: Brand, store: blobs.Store, standin: Standin
) -> None:
    row = asset(brand, store, picture("PNG"))
    post = factories.post(channel, media=[{"asset": str(row.pk)}])
    services.enqueue(accounts[channel], post)
    with freeze_clock() as clock:
        for _ in range(4):
            run_jobs(["publisher"])
            clock.tick(11)
    assert Publication.objects.get().status == "completed", Publication.objects.get().error
    [container] = standin.containers.values()
    answer: Any = Client().get(container["image_url"].removeprefix("https://posts.acme.test"))
    assert answer["Content-Type"] == "image/jpeg"
    assert b"".join(answer.streaming_content) == stored(store, row.copy_blob)


def test_facebook_gets_the_png_itself(
    accounts: dict[str, Account], brand: Brand, store: blobs.Store, standin: Standin
) -> None:
    row = asset(brand, store, data := picture("PNG"))
    services.enqueue(accounts["meta_facebook"], posted(row))
    run_jobs(["publisher"])
    [post] = standin.posts["page"]
    answer: Any = Client().get(post["media_url"].removeprefix("https://posts.acme.test"))
    assert answer["Content-Type"] == "image/png" and b"".join(answer.streaming_content) == data


def test_a_copy_that_was_changed_is_not_published(
    accounts: dict[str, Account], brand: Brand, store: blobs.Store, standin: Standin
) -> None:
    row = asset(brand, store, picture("PNG"))
    services.enqueue(accounts["meta_instagram"], posted(row))
    store.write(row.copy_blob, picture())
    run_jobs(["publisher"])
    found = Publication.objects.get()
    assert (found.reason, found.error) == ("permanent", "the asset has changed")
    assert not standin.containers


def bomb() -> bytes:
    """A small PNG whose pixels take thousands of times its size."""
    made = io.BytesIO()
    Image.new("1", (7_700, 7_700)).save(made, "PNG")
    return made.getvalue()


def broken(data: bytes) -> bytes:
    """The PNG with pixels that cannot be unpacked, and the right checksum."""
    at = data.index(b"IDAT")
    size = int.from_bytes(data[at - 4 : at])
    torn = b"IDAT" + b"\x00" * size
    return data[:at] + torn + zlib.crc32(torn).to_bytes(4) + data[at + 8 + size :]


@pytest.mark.parametrize("case", ["broken", "memory", "false word"])
def test_an_image_that_cannot_be_decoded_leaves_no_file(
    case: str, caller: Caller, store: blobs.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, words = picture("PNG"), "cannot be read"
    if case == "broken":
        data = broken(data)
    elif case == "memory":
        data, words = bomb(), "takes too much"
        tight = sandbox.Limits(memory=192 * 1024**2, cpu=30, wall=60)
        monkeypatch.setattr(images, "LIMITS", tight)
    else:
        value = {"jpeg": "AAAA", "is_odd": True, "is_turned": False}
        ended = sandbox.Outcome("ok", value=value)
        monkeypatch.setattr(sandbox, "run", lambda *a, **k: ended)
    upload = announced(caller, data).data
    assert send(upload, data) in (200, 201, 204)
    answer = caller("POST", f"{ASSETS}/{upload['id']}/confirm", {})
    assert (answer.status_code, answer.data["code"]) == (422, "fp_publisher_invalid_plan")
    assert words in answer.data["detail"]
    assert list(store.list()) == [] and not Asset.objects.filter(is_ready=True).exists()


def test_an_image_with_more_pixels_than_its_header_says_is_refused(tmp_path: Path) -> None:
    options = {"pixels": 100, "edge": 10, "most": 10_000, "is_plain": False}
    path = tmp_path / "a.jpg"
    path.write_bytes(picture())
    ended = sandbox.run("publisher.parsers.image", path, options=options)
    assert (ended.status, ended.type) == ("error", "Bomb")


def test_without_pillow_a_check_and_the_preflight_say_so(
    accounts: dict[str, Account], brand: Brand, store: blobs.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks.check_images() == []
    monkeypatch.setattr(images, "is_installed", lambda: False)
    assert [one.id for one in checks.check_images()] == ["publisher.W002"]
    row = asset(brand, store, png())
    assert row.is_ready and not row.copy_size
    with pytest.raises(Refused, match=r"takes JPEG up to 8 MB.*install Pillow"):
        services.enqueue(accounts["meta_instagram"], posted(row))
    draft = Draft.model_validate({"caption": "Bread", "media": [{"asset": str(row.pk)}]})
    [seen, other] = preflight.look(brand, draft, ["meta_instagram", "meta_facebook"])
    assert [one.pointer for one in seen.checks] == ["/content/media/0"] and not other.blocked
    services.enqueue(accounts["meta_facebook"], posted(row))


@pytest.mark.slow
@pytest.mark.parametrize(("form", "mode"), [("PNG", "RGBA"), ("WEBP", "RGBA"), ("JPEG", "CMYK")])
def test_an_image_of_sixty_megapixels_is_converted(
    form: str, mode: str, brand: Brand, store: blobs.Store
) -> None:
    data = picture(form, (10_000, 6_000), mode, **({"compress_level": 1} if form == "PNG" else {}))
    made = opened(copy_of(brand, store, data))
    assert made.size == (2048, 1229)


def test_a_fetched_image_that_cannot_be_decoded_leaves_no_file(
    caller: Caller, store: blobs.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets, "_pieces", lambda url: iter([broken(picture("PNG"))]))
    body = {"brand": "acme", "url": "https://acme.test/a.png", "name": "a.png"}
    answer = caller("POST", f"{ASSETS}/fetch", body)
    assert (answer.status_code, answer.data["code"]) == (422, "fp_publisher_invalid_plan")
    assert "cannot be read" in answer.data["detail"]
    assert list(store.list()) == [] and not Asset.objects.exists()
