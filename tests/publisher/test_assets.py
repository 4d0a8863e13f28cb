"""Assets: looked at by their bytes, kept once, checked again, and fetched by signed addresses."""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.test import Client
from PIL.PngImagePlugin import PngInfo

from config.standins.publisher import Standin
from jobs import blobs
from jobs.testing import freeze_clock, run_jobs
from publisher import asset_verbs, assets, checks, images, services, sniffing
from publisher.content import Content
from publisher.errors import Refused
from publisher.models import Account, Asset, Brand, Publication
from tests.api.conftest import Caller
from tests.publisher import factories
from tests.publisher.pictures import picture

pytestmark = pytest.mark.django_db
ASSETS = "/publisher/assets"


def png(width: int = 4, height: int = 3) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 39))
        + chunk(b"IEND", b"")
    )  # fmt: skip


def jpeg(width: int = 4, height: int = 3) -> bytes:
    sof = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    return b"\xff\xd8\xff\xe0\x00\x04ab" + sof + b"\xff\xda\x00\x02data\xff\xd9"


def mp4(seconds: int = 7) -> bytes:
    def box(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I4s", len(data) + 8, name) + data

    header = box(b"mvhd", bytes(12) + struct.pack(">II", 1000, seconds * 1000) + bytes(80))
    track = box(b"trak", box(b"tkhd", bytes(76) + struct.pack(">II", 640 << 16, 480 << 16)))
    return box(b"ftyp", b"isom" + bytes(8)) + box(b"moov", header + track) + box(b"mdat", b"x" * 50)


def webp() -> bytes:
    data = b"VP8X" + struct.pack("<I", 10) + bytes(4) + b"\x03\0\0\x02\0\0"
    return b"RIFF" + struct.pack("<I", len(data) + 4) + b"WEBP" + data


GIF = b"GIF89a" + struct.pack("<HH", 4, 3) + bytes(30)


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (png(), "image/png"), (jpeg(), "image/jpeg"), (GIF, "image/gif"), (webp(), "image/webp"),
    ],
)  # fmt: skip
def test_images_are_known_by_their_bytes(data: bytes, content_type: str) -> None:
    found = sniffing.sniff(io.BytesIO(data))
    assert (found.content_type, found.width, found.height) == (content_type, 4, 3)


def test_videos_are_known_by_their_bytes() -> None:
    found = sniffing.sniff(io.BytesIO(mp4()))
    assert (found.content_type, found.width, found.height) == ("video/mp4", 640, 480)
    assert found.seconds == 7


@pytest.mark.parametrize("data", [png(), jpeg(), webp(), mp4()], ids=["png", "jpeg", "webp", "mp4"])
def test_a_file_that_is_cut_anywhere_is_refused(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(sniffing.Broken):
            sniffing.sniff(io.BytesIO(data[:length]))


@pytest.fixture
def store(settings: Any, tmp_path: Path, standin: Standin) -> blobs.Store:
    made = {"STORE": "local", "ROOT": str(tmp_path)}
    settings.JOBS = {**settings.JOBS, "BLOBS": made}
    settings.PUBLISHER = {**settings.PUBLISHER, "PUBLIC_URL": "https://posts.acme.test/"}
    return blobs.store()


@pytest.fixture
def caller(store: blobs.Store, accounts: dict[str, Account]) -> Caller:
    return Caller(tenants=["brand:acme"])


def announced(caller: Caller, data: bytes, content_type: str = "image/png", **fields: Any) -> Any:
    body = {"brand": "acme", "name": "a.png", "size": len(data), "content_type": content_type}
    return caller("POST", f"{ASSETS}/uploads", {**body, **fields})


def send(upload: Any, data: bytes) -> int:
    headers = {name.replace("-", "_"): value for name, value in upload["headers"].items()}
    headers.pop("Content_Length")
    answer: Any = Client().put(
        upload["url"], data, content_type=headers.pop("Content_Type"), headers=headers
    )
    return int(answer.status_code)


def test_an_upload_becomes_an_asset(caller: Caller) -> None:
    data = png()
    upload = announced(caller, data, alt_text="Bread")
    assert upload.status_code == 201, upload.content
    path = f"{ASSETS}/{upload.data['id']}"
    assert caller("GET", path).status_code == 404
    early = caller("POST", f"{path}/confirm", {})
    assert (early.status_code, early.data["code"]) == (422, "fp_publisher_invalid_plan")
    assert send(upload.data, data) in (200, 201, 204)
    answer = caller("POST", f"{path}/confirm", {})
    assert answer.status_code == 200, answer.content
    assert (answer.data["kind"], answer.data["width"], answer.data["height"]) == ("image", 4, 3)
    assert caller("POST", f"{path}/confirm", {}).data == answer.data
    assert caller("GET", ASSETS).data["data"] == [answer.data] == [caller("GET", path).data]


@pytest.mark.django_db(transaction=True)
def test_an_upload_is_decoded_outside_of_transactions_and_confirmed_once(
    brand: Brand, store: blobs.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two people confirm it at once; the second meets a file that the first has cleaned."""
    text = PngInfo()
    text.add_text("Comment", "from a camera")
    data = picture("PNG", pnginfo=text)
    made = asset_verbs.upload("acme", "a", len(data), "image/png", by="ada")
    row = Asset.objects.get(pk=made["id"])
    store.write(row.blob, data)
    both, decode, errors = Barrier(2, timeout=30), images.decode, list[BaseException]()

    def decoded(*given: Any) -> Any:
        assert not connection.in_atomic_block
        both.wait()
        return decode(*given)

    def confirm() -> None:
        try:
            asset_verbs.confirm(row.pk, by="ada")
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    monkeypatch.setattr(images, "decode", decoded)
    threads = [Thread(target=confirm) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row.refresh_from_db()
    assert errors == [] and row.is_ready and row.size < len(data)
    with store.read(row.blob) as pieces:
        assert hashlib.sha256(b"".join(pieces)).hexdigest() == row.sha256


def test_a_caller_who_may_not_confirm_makes_nobody_decode(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = announced(caller, png()).data
    send(upload, png())
    monkeypatch.setattr(assets, "inspected", lambda asset: pytest.fail("it was inspected"))
    for other in (Caller(tenants=["brand:other"]), Caller(permissions=["publisher.view_asset"])):
        assert other("POST", f"{ASSETS}/{upload['id']}/confirm", {}).status_code in (403, 404)


@pytest.mark.parametrize(
    ("data", "content_type", "words"),
    [
        (jpeg(), "image/png", "the file is image/jpeg"),
        (png(10_000, 6_001), "image/png", "megapixels"),
        (png()[:-20], "image/png", "not whole"),
        (b"<script>alert(1)</script>", "image/png", "neither an image"),
    ],
    ids=["false type", "bomb", "cut", "page"],
)
def test_a_bad_upload_is_refused_and_no_file_is_left(
    data: bytes, content_type: str, words: str, caller: Caller, store: blobs.Store
) -> None:
    upload = announced(caller, data, content_type).data
    assert send(upload, data) in (200, 201, 204)
    answer = caller("POST", f"{ASSETS}/{upload['id']}/confirm", {})
    assert (answer.status_code, answer.data["code"]) == (422, "fp_publisher_invalid_plan")
    assert words in answer.data["detail"]
    assert list(store.list()) == [] and caller("GET", ASSETS).data["data"] == []


def test_a_type_that_no_channel_takes_is_refused_at_once(caller: Caller) -> None:
    answer = announced(caller, b"x", "text/html")
    assert (answer.status_code, answer.data["errors"][0]["pointer"]) == (422, "/content_type")
    assert announced(caller, b"x", size=2 * 1024**3).status_code == 422
    assert not Asset.objects.exists()


def test_private_addresses_are_not_fetched(brand: Brand, store: blobs.Store, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": []}
    for url in ("http://127.0.0.1/a.png", "http://169.254.169.254/", "file:///etc/passwd"):
        with pytest.raises(Refused):
            asset_verbs.fetch("acme", url, "a", by="ada")
    assert not Asset.objects.exists() and list(store.list()) == []


@pytest.fixture
def site() -> Iterator[str]:
    """A web server with an image and a page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = {"/a.png": png(), "/page": b"<html>"}
            self.send_response(200 if self.path in known else 404)
            self.end_headers()
            self.wfile.write(known.get(self.path, b""))

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_image_is_copied_from_an_address(caller: Caller, store: blobs.Store, site: str) -> None:
    body = {"brand": "acme", "url": f"{site}/a.png", "name": "a.png"}
    answer = caller("POST", f"{ASSETS}/fetch", body)
    assert answer.status_code == 201, answer.content
    assert (answer.data["content_type"], answer.data["size"]) == ("image/png", len(png()))
    with store.read(Asset.objects.get().blob) as pieces:
        assert b"".join(pieces) == png()
    for path, words in (("page", "neither an image"), ("none", "answers 404")):
        answer = caller("POST", f"{ASSETS}/fetch", {**body, "url": f"{site}/{path}"})
        assert answer.status_code == 422 and words in answer.data["detail"]
    assert Asset.objects.count() == 1 and len(list(store.list())) == 2  # with the copy


def asset(brand: Brand, store: blobs.Store, data: bytes) -> Asset:
    content_type = sniffing.sniff(io.BytesIO(data)).content_type
    kind = {"content_type": content_type, "name": "a", "size": len(data)}
    made = asset_verbs.upload("acme", by="ada", alt_text="Bread", **kind)  # type: ignore[arg-type]
    row = Asset.objects.get(pk=made["id"])
    store.write(row.blob, data)
    asset_verbs.confirm(row.pk, by="ada")
    return Asset.objects.get(pk=row.pk)


def posted(row: Asset) -> Content:
    return factories.post("meta_instagram", media=[{"asset": str(row.pk)}])


def test_a_provider_gets_a_signed_address(
    accounts: dict[str, Account], brand: Brand, store: blobs.Store, standin: Standin
) -> None:
    row = asset(brand, store, picture())
    made = services.enqueue(accounts["meta_instagram"], posted(row)).row
    [kept] = made.content["media"]
    assert (kept["checksum"], kept["alt_text"], kept.get("url", "")) == (row.sha256, "Bread", "")
    with freeze_clock() as clock:
        for _ in range(4):
            run_jobs(["publisher"])
            clock.tick(11)
    assert Publication.objects.get().status == "completed", Publication.objects.get().error
    [container] = standin.containers.values()
    url = container["image_url"]
    assert url.startswith("https://posts.acme.test/")
    there = urlsplit(url)
    answer: Any = Client().get(f"{there.path}?{there.query}")
    assert b"".join(answer.streaming_content) == picture()
    assert Client().get(there.path).status_code in (400, 403, 404)


@pytest.mark.parametrize("change", ["other bytes", "gone", "no address"])
def test_an_asset_is_checked_again_before_it_is_published(
    change: str, accounts: dict[str, Account], brand: Brand, store: blobs.Store, settings: Any,
    standin: Standin,
) -> None:  # fmt: skip
    row = asset(brand, store, picture())
    services.enqueue(accounts["meta_instagram"], posted(row))
    if change == "no address":
        settings.PUBLISHER = {**settings.PUBLISHER, "PUBLIC_URL": ""}
    else:
        store.delete(row.blob)
        if change == "other bytes":
            store.write(row.blob, png())
    run_jobs(["publisher"])
    found = Publication.objects.get()
    assert (found.status, found.reason) == ("failed", "permanent") and not standin.posts["user"]


def test_the_asset_of_another_brand_is_none(
    accounts: dict[str, Account], brand: Brand, store: blobs.Store, caller: Caller
) -> None:
    row = asset(brand, store, picture())
    other = services.create_brand("other", "Other")
    Asset.objects.filter(pk=row.pk).update(brand=other, tenant=other.tenant)
    body = {"channel": "meta_instagram", "payload": {"media": [{"asset": str(row.pk)}]}}
    answer = caller("POST", "/publisher/jobs", body)
    assert (answer.status_code, answer.data["code"]) == (422, "fp_publisher_invalid_plan")
    assert answer.data["errors"][0]["pointer"] == "/payload/media/0/asset"
    for method, path, asked in (
        ("GET", f"{ASSETS}/{row.pk}", None), ("POST", f"{ASSETS}/{row.pk}/confirm", {}),
        ("POST", f"{ASSETS}/{row.pk}/describe", {"alt_text": "mine"}),
    ):  # fmt: skip
        assert caller(method, path, asked).status_code == 404
    assert announced(caller, b"x", brand="other").status_code == 404
    body = {"brand": "other", "url": "https://acme.test/a.png", "name": "a"}
    assert caller("POST", f"{ASSETS}/fetch", body).status_code == 404


def test_the_same_bytes_are_the_same_post(
    accounts: dict[str, Account], brand: Brand, store: blobs.Store
) -> None:
    one, other = asset(brand, store, picture()), asset(brand, store, picture())
    moment = services.until_from_now()
    first = services.schedule(accounts["meta_instagram"], posted(one), moment)
    again = services.schedule(accounts["meta_instagram"], posted(other), moment)
    assert first.row.pk == again.row.pk and not again.is_new


def test_a_check_warns_where_nobody_can_fetch_assets(
    settings: Any, tmp_path: Path, brand: Brand
) -> None:
    settings.JOBS = {**settings.JOBS, "BLOBS": {"STORE": "local", "ROOT": str(tmp_path)}}
    settings.PUBLISHER = {}
    assert [one.id for one in checks.check_addresses()] == ["publisher.W001"]
    settings.PUBLISHER = {"PUBLIC_URL": "https://posts.acme.test"}
    assert checks.check_addresses() == []
    stored = {"STORE": "local", "ROOT": str(tmp_path), "ORIGIN": "https://files.acme.test"}
    settings.JOBS = {**settings.JOBS, "BLOBS": stored}
    settings.PUBLISHER = {}
    assert checks.check_addresses() == []
