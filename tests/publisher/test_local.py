"""The accounts that ``make run`` offers while no provider is configured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from config.standins.publisher import Standin, offered
from jobs.testing import freeze_clock, run_jobs
from publisher import services
from publisher.content import Content
from publisher.models import Account, Brand, Channel, Publication
from tests.publisher import factories


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_ALLOW", "10.0.0.1")
    monkeypatch.setenv("PUBLIC_URL", "")
    monkeypatch.delenv("PUBLIC_URL")


@pytest.mark.django_db
def test_every_offered_account_publishes_where_it_can_be_seen(
    environment: None, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}
    with offered.serving(8123) as standin:
        assert os.environ["HTTP_ALLOW"] == "10.0.0.1,127.0.0.0/8"
        assert os.environ["PUBLIC_URL"] == "http://127.0.0.1:8123"
        assert offered.offer(standin.url) == len(Channel)
        assert "Nothing has been published yet" in httpx.get(standin.url).text
        factories.origin = standin.url
        made = [
            services.enqueue(account, factories.post(account.channel, f"Bread & {account.channel}"))
            for account in Account.objects.select_related("brand")
        ]
        with freeze_clock() as clock:
            for _ in range(4):
                run_jobs(["publisher"])
                clock.tick(11)
        rows = Publication.objects.filter(pk__in=[one.row.pk for one in made])
        assert {(row.channel, row.status) for row in rows} == {
            (channel, "completed") for channel in Channel.values
        }
        page = httpx.get(f"{standin.url}/posts").text
        shown = {channel for channel in Channel.values if f"Bread &amp; {channel}" in page}
        assert shown == set(Channel.values) - {Channel.META_INSTAGRAM_STORIES}
        for row in rows.exclude(channel=Channel.WORDPRESS_BLOG):
            assert row.url.startswith(f"{standin.url}/posts#"), row.channel
            assert f'id="{row.remote_id}"' in page
    with pytest.raises(httpx.ConnectError):
        httpx.get(standin.url)


@pytest.mark.django_db
def test_a_later_start_keeps_the_accounts_and_knows_the_new_address() -> None:
    offered.offer("http://127.0.0.1:1111")
    Account.objects.filter(channel="tiktok").update(status="disabled", name="Ours")
    assert offered.offer("http://127.0.0.1:2222") == 0
    assert Brand.objects.get().slug == offered.SLUG
    assert Account.objects.count() == len(Channel)
    ours = Account.objects.get(channel="tiktok")
    assert (ours.status, ours.name) == ("disabled", "Ours")
    assert ours.base_url == "http://127.0.0.1:2222/tiktok"


def test_nothing_stands_in_for_providers_that_are_configured(settings: Any) -> None:
    settings.DEBUG, settings.PUBLISHER = True, {}
    assert offered.is_needed()
    settings.PUBLISHER = {"GOOGLE_CLIENT_ID": "ours"}
    assert not offered.is_needed()
    settings.DEBUG, settings.PUBLISHER = False, {}
    assert not offered.is_needed()


@pytest.fixture
def media() -> Iterator[str]:
    """A server on this machine, of one image and one text."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {"/a.jpg": "image/jpeg", "/a.png": "image/png"}.get(self.path)
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", found or "text/plain")
            self.end_headers()
            self.wfile.write(b"bytes")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("channel", "name", "status"),
    [
        ("meta_instagram", "a.jpg", "completed"), ("meta_instagram", "a.png", "failed"),
        ("meta_instagram", "gone.jpg", "failed"), ("meta_facebook", "a.png", "completed"),
        ("meta_facebook", "gone.jpg", "failed"), ("google_business", "a.jpg", "completed"),
        ("google_business", "gone.jpg", "failed"),
    ],
)  # fmt: skip
def test_the_stand_in_fetches_media_as_the_providers_do(
    accounts: dict[str, Account], standin: Standin, media: str, channel: str, name: str, status: str
) -> None:
    post = Content.model_validate({"caption": "x", "media": [{"url": f"{media}/{name}"}]})
    row = services.enqueue(accounts[channel], post).row
    with freeze_clock() as clock:
        for _ in range(3):
            run_jobs(["publisher"])
            clock.tick(11)
    row.refresh_from_db()
    assert row.status == status, row.error
