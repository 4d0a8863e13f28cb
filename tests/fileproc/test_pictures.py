"""Presentations, pictures, scans, and pictures inside of documents."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from PIL import Image

from fileproc import extraction, ocr, pipeline_version
from fileproc.errors import FileError
from fileproc.models import Batch, Stage
from fileproc.services import announcing, batches, reprocessing, search
from tests.fileproc import documents
from tests.fileproc.caller import user
from tests.fileproc.conftest import process, upload
from tests.fileproc.test_corpus import Attempt

SIGN = "Beware of the dog"
HERE = ocr.arguments("en") if ocr.is_installed() else {}
needs_ocr = pytest.mark.skipif(not HERE, reason="Tesseract is not installed (extra `ocr`)")


def read(
    folder: Path, name: str, data: bytes, recognition: dict[str, str] = HERE
) -> extraction.Found:
    path = folder / "document"
    path.write_bytes(data)
    attempt: Any = Attempt()
    return extraction.read(attempt, str(path), name, recognition)


def scan(*pages: str) -> bytes:
    """A PDF whose pages are pictures."""
    first, *others = [Image.open(io.BytesIO(documents.picture(text))) for text in pages]
    out = io.BytesIO()
    first.save(out, "PDF", save_all=True, append_images=others, resolution=150)
    return out.getvalue()


def test_slides_are_pages_in_the_order_in_which_they_are_shown(tmp_path: Path) -> None:
    data = documents.pptx(("One", "first"), ("Two", "second"), notes="said", backwards=True)
    found = read(tmp_path, "a.pptx", data)
    assert found.text.split() == ["One", "first", "said", "Two", "second"]
    assert [title for _, _, title in found.headings] == ["One", "Two"]
    assert [found.text[place:].split()[0] for place in found.pages] == ["One", "Two"]


def test_a_presentation_that_lacks_a_slide_is_damaged(tmp_path: Path) -> None:
    whole = documents.pptx()
    with pytest.raises(FileError, match="DAMAGED"):
        read(tmp_path, "a.pptx", whole.replace(b"slides/slide2.xml", b"slides/slide9.xml"))
    with pytest.raises(FileError, match="LIMIT_EXCEEDED"):
        read(tmp_path, "a.pptx", documents.pptx(*[("T", "t")] * 2001))


@needs_ocr
def test_the_text_of_scanned_pages_is_recognised_beside_that_of_others(tmp_path: Path) -> None:
    found = read(tmp_path, "a.pdf", scan(documents.WORDS, SIGN))
    first, second = (found.text[place:] for place in found.pages)
    assert documents.WORDS in first and SIGN in second and documents.WORDS not in second
    assert found.warnings == []


@needs_ocr
@pytest.mark.parametrize(
    "data",
    [
        documents.docx(("Normal", "before"), pictures=(documents.picture(SIGN),) * 2),
        documents.pptx(("Signs", "before"), picture=documents.picture(SIGN)),
    ],
    ids=["docx", "pptx"],
)
def test_the_text_of_pictures_inside_of_documents_is_recognised(
    tmp_path: Path, data: bytes
) -> None:
    found = read(tmp_path, "a", data)
    assert found.text.index("before") < found.text.index(SIGN)
    assert found.warnings == []


@needs_ocr
def test_a_picture_lies_on_its_side_or_on_nothing(tmp_path: Path) -> None:
    image, side, clear = Image.open(io.BytesIO(documents.picture(SIGN))), io.BytesIO(), io.BytesIO()
    noted = Image.Exif()
    noted[0x0112], noted[0x010E] = 6, "canary"  # turned by a quarter, with a description
    image.transpose(Image.Transpose.ROTATE_90).save(side, "JPEG", exif=noted)
    mask = image.convert("L").point(lambda shade: 255 - shade)
    black = Image.new("RGBA", image.size, (0, 0, 0, 0))
    black.putalpha(mask)
    black.save(clear, "PNG")
    for picture in (side, clear):
        found = read(tmp_path, "a.png", picture.getvalue())
        assert SIGN in found.text and "canary" not in found.text


def test_without_recognition_a_picture_has_its_name_format_and_size(tmp_path: Path) -> None:
    found = read(tmp_path, "dog.png", documents.picture(SIGN), {})
    assert found.text.split("\n")[:2] == ["dog.png", "PNG, 1400 × 120 pixels"]  # noqa: RUF001
    assert found.warnings == ["pictures or scanned pages that were not read: 1"]
    with pytest.raises(FileError, match="NO_TEXT"):
        read(tmp_path, "a.pdf", scan(SIGN), {})
    mixed = documents.docx(("Normal", "words"), pictures=(b"no picture", b""))
    assert read(tmp_path, "a.docx", mixed, {}).text.strip() == "words"


@needs_ocr
def test_what_is_no_picture_inside_of_a_document_is_a_warning(tmp_path: Path) -> None:
    mixed = documents.docx(("Normal", "words"), pictures=(b"no picture", huge()))
    found = read(tmp_path, "a.docx", mixed)
    assert found.text.strip() == "words"
    assert found.warnings == ["pictures or scanned pages that were not read: 2"]


def huge() -> bytes:
    out = io.BytesIO()
    Image.new("1", (9000, 9000)).save(out, "PNG")
    return out.getvalue()


def tiff() -> bytes:
    out = io.BytesIO()
    Image.new("L", (50, 50)).save(out, "TIFF")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (huge(), "BOMB"), (tiff(), "UNSUPPORTED_TYPE"), (documents.picture()[:500], "DAMAGED"),
        (b"\x89PNG\r\n\x1a\n", "UNSUPPORTED_TYPE"),
    ],
    ids=["huge", "tiff", "broken", "empty"],
)  # fmt: skip
def test_a_bad_picture_fails_with_its_code(tmp_path: Path, data: bytes, code: str) -> None:
    if code == "DAMAGED" and not HERE:
        pytest.skip("only its head is read without Tesseract")
    with pytest.raises(FileError, match=code):
        read(tmp_path, "a.png", data)


@needs_ocr
def test_more_pictures_than_the_limit_fail_a_document(tmp_path: Path) -> None:
    out = []
    for shade in range(51):
        made = io.BytesIO()
        Image.new("L", (40, 40), shade).save(made, "PNG")
        out.append(made.getvalue())
    with pytest.raises(FileError, match="LIMIT_EXCEEDED"):
        read(tmp_path, "a.docx", documents.docx(pictures=tuple(out)))
    assert read(tmp_path, "a.docx", documents.docx(pictures=tuple(out[:50]))).warnings == []


@pytest.mark.parametrize("name", ["a.js", "a.css", "a.svg", "a.txt"])
def test_code_is_text_and_so_is_what_begins_like_a_picture(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, name, b"BMW { color: red }")
    assert (found.type, found.text) == ("txt", "BMW { color: red }")


@pytest.mark.django_db
@needs_ocr
def test_recognition_can_be_left_out_for_a_batch_and_done_later() -> None:
    [scanned] = upload(("dog.png", documents.picture(SIGN)))
    batch = scanned.batch
    with_it = pipeline_version.of(batch)
    Batch.objects.update(with_ocr=False)
    process(4)
    scanned.refresh_from_db()
    assert (scanned.status, scanned.warnings) == (
        "ready", ["pictures or scanned pages that were not read: 1"]
    )  # fmt: skip
    assert search.search("user:1", "beware", mode="text").hits == []
    without = pipeline_version.of(Batch.objects.get())
    assert pipeline_version.first_change(without, with_it) == Stage.EXTRACT
    Batch.objects.update(with_ocr=True)
    reprocessing.reprocess("user:1", scanned.pk, by="tests")
    process(4)
    [hit] = search.search("user:1", "beware", mode="text").hits
    assert hit.file_id == scanned.pk and "Beware" in hit.text


@pytest.mark.django_db
def test_a_picture_may_be_smaller_than_other_files_only() -> None:
    size = 31 * 1024**2
    assert announcing.problem_of(announcing.Announced("a.pdf", size)) is None
    problem = announcing.problem_of(announcing.Announced("a.PNG", size))
    assert problem is not None and problem.code == "FILE_TOO_LARGE"
    batch, _, _ = batches.create_from(
        "user:1", [announcing.Announced("a.png", 10)], options=batches.Options(with_ocr=False)
    )
    assert not batch.with_ocr


@pytest.mark.django_db
def test_recognition_is_switched_by_api_page_and_command_and_shown_in_the_admin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = user()
    made = ana("POST", "/batches", {"fileCount": 1, "ocr": False}).data
    assert made["ocr"] is False
    assert ana("GET", f"/batches/{made['batchId']}").data["ocr"] is False
    assert ana("POST", "/batches", {"fileCount": 1}).data["ocr"] is True
    for is_installed in (True, False):
        monkeypatch.setattr(ocr, "is_installed", lambda answer=is_installed: answer)
        page = ana.client.get("/uploads/").content.decode()
        assert ('id="ocr" type="checkbox" checked' in page) is is_installed
    (tmp_path / "dog.png").write_bytes(documents.picture(SIGN))
    call_command(
        "fileproc", "upload", str(tmp_path), "--owner=acme", "--no-ocr", stdout=io.StringIO()
    )
    batch = Batch.objects.get(owner="acme")
    assert not batch.with_ocr
    root = Client()
    root.force_login(User.objects.create_superuser("root"))
    shown = root.get(f"/admin/fileproc/batch/{batch.pk}/change/").content.decode()
    assert "not recognised" in shown
