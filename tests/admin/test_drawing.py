"""How pages are put together: their style sheets, pictures, titles and ways back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import django
import pytest
from django.contrib.auth.models import User
from django.contrib.staticfiles import storage
from django.core.management import call_command
from django.test import Client

from jobs.admin import charts
from tests.admin.screens import screens

STATIC = Path(__file__).parents[2] / "jobs" / "static" / "jobs"
MANIFEST = "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"
pytestmark = pytest.mark.django_db


@pytest.fixture
def pages(ids: dict[str, Any], client: Client) -> dict[str, str]:
    """Every screen by its name."""
    client.force_login(User.objects.get(username="root"))
    return {
        name: client.get(f"/admin/jobs/{path}").content.decode()
        for name, path in screens(ids).items()
    }


def test_files_have_names_that_change_with_them(
    admin_client: Client, settings: Any, tmp_path: Path
) -> None:
    """Collected as for a server, each file that a page names is there."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": MANIFEST}}
    settings.DEBUG = False
    call_command("collectstatic", verbosity=0, interactive=False)
    text = admin_client.get("/admin/jobs/overview/").content.decode()
    named = re.findall(r'(?:href|src)="/?static/(jobs/[^"]+)"', text)
    assert len(named) == 2
    for one in named:
        assert re.fullmatch(r"jobs/[\w-]+\.[0-9a-f]{12}\.(css|js)", one)
        assert (tmp_path / one).is_file()
    assert isinstance(storage.staticfiles_storage._wrapped, storage.ManifestStaticFilesStorage)  # type: ignore[attr-defined]


@pytest.mark.parametrize("sheet", ["base.css", "theme-unfold.css"])
def test_colours_are_tokens_of_the_root(sheet: str) -> None:
    """Cells of a theme's tables, which are outside of our part, have them as well."""
    text = re.sub(r"/\*.*?\*/", "", (STATIC / sheet).read_text(), flags=re.DOTALL)
    for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", text):
        if re.search(r"--jd-[\w-]+\s*:", body):
            places = {one.strip().split("[")[0].split(":not")[0] for one in selector.split(",")}
            assert places <= {":root", "html", "html.dark"}, selector
        else:
            assert not re.search(r"#[0-9a-f]{3,6}\b", body), selector


def test_the_way_back_is_in_the_markup_of_the_running_django(pages: dict[str, str]) -> None:
    tag = "ol" if django.VERSION >= (6, 1) else "div"
    for name, text in pages.items():
        assert re.findall(r'<(\w+) class="breadcrumbs"', text) == [tag], name


def test_every_page_has_its_title_once(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        assert len(re.findall(r"<h1[ >]", ours(text))) == 1, name


class Pictures(HTMLParser):
    """Collects pictures that would be drawn wrongly."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[dict[str, str | None]] = []
        self.wrong: list[str] = []
        self.texts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        stretched = [svg for svg in self.open if svg.get("preserveaspectratio") == "none"]
        if tag == "svg":
            self.open.append(given)
            if not (given.get("width") and given.get("height")):
                self.wrong.append("an svg without its size fills the page")
        elif tag == "text":
            self.texts += 1
            if any("viewbox" in svg for svg in self.open):
                self.wrong.append("text in a viewBox shrinks with it")
        elif tag in ("path", "polyline") and stretched and "jd-line" not in str(given.get("class")):
            self.wrong.append("a stretched line is as thick as its stretching")

    def handle_endtag(self, tag: str) -> None:
        if tag == "svg":
            self.open.pop()


def ours(text: str) -> str:
    """The part of a page that is not Django's."""
    return text.split('class="jd"', 1)[1].split("<dialog data-jd-help", 1)[0]


def wrong_pictures(text: str) -> tuple[list[str], int]:
    parser = Pictures()
    parser.feed(text)
    return parser.wrong, parser.texts


def test_pictures_have_a_size_and_readable_words(pages: dict[str, str]) -> None:
    texts = 0
    for name, text in pages.items():
        wrong, found = wrong_pictures(ours(text))
        assert wrong == [], name
        texts += found
    assert texts > 20
    assert "vector-effect: non-scaling-stroke" in (STATIC / "base.css").read_text()


def test_a_wrong_picture_is_found() -> None:
    bad = '<svg width="9"><svg width="1" height="1" viewBox="0 0 1 1" preserveAspectRatio="none"><text>a</text><path d=""/></svg></svg>'  # noqa: E501
    assert len(wrong_pictures(bad)[0]) == 3


def test_curves_may_fall_below_zero() -> None:
    hour = datetime(2026, 1, 5, tzinfo=UTC)
    lines = [charts.Line("Hold", [-1.0, 0.0, 3.0], "blue"), charts.Line("Flat", [0.0] * 3, "green")]
    drawn = charts.curves([hour + timedelta(hours=n) for n in range(3)], lines, "Hold & Flat")
    assert 'points="0.0,150.0 500.0,112.5 1000.0,0.0"' in drawn
    assert 'points="0.0,112.5 500.0,112.5 1000.0,112.5"' in drawn
    assert 'y1="126.5"' in drawn and 'aria-label="Hold &amp; Flat"' in drawn
    assert [text for text in (">3<", ">0<", ">-1<") if text not in drawn] == []
    flat = charts.curves([hour], [charts.Line("Hold", [0.0], "blue")], "")
    assert "nan" not in flat and ">0<" in flat
