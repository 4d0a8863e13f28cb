"""Channels of other distributions: registered by entry points, and like the others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core import checks
from django.test import Client

from config.standins.publisher import Standin
from jobs.testing import freeze_clock, run_jobs
from publisher import channels, config, connectors, plan_verbs, plans, services
from publisher.content import Content
from publisher.errors import Refused
from publisher.models import Account, Brand, Publication
from tests.integration.fleet import CHECKOUT
from tests.publisher.plugging import distribution, plugged

PAGER = '''
from publisher.connectors import Api, Connector, Fault, Published, bearer, id_of, wordpress


class Pager(Connector):
    """Sends texts to a blog, as pagers are rare."""

    label = "Pager"
    limit = 20
    left_out = ("link", "media")
    needs_address = True

    def faults(self, content):
        return self.too_long(content) + ([] if content.text else [Fault("caption", "is empty")])

    def preview(self, content):
        return {"content": content.text}

    def publish(self, run):
        api = Api(run, "pager", run.account.base_url, wordpress.judge, wordpress._sign)
        slug = f"p-{run.row.pk.hex}"

        def call():
            body = {"title": "-", "status": "publish", "slug": slug, **self.preview(run.content)}
            return {"id": id_of(api.post(wordpress.POSTS, json=body))}

        return Published(run.publish(call, lambda intent: None)["id"])
'''


@pytest.fixture
def pager(tmp_path: Path) -> Iterator[channels.Found]:
    """A distribution with a connector is installed."""
    (tmp_path / "pager_of_test.py").write_text(PAGER)
    distribution(tmp_path, {"pager": "pager_of_test:Pager"})
    with plugged(tmp_path) as found:
        yield found
    sys.modules.pop("pager_of_test", None)


@pytest.fixture
def account(brand: Brand, standin: Standin) -> Account:
    return Account.objects.create(
        brand=brand, tenant=brand.tenant, channel="pager", name="Ours", remote_account="editor",
        base_url=f"{standin.url}/blog", token="token-0",
    )  # fmt: skip


@pytest.mark.django_db
def test_a_post_appears_on_a_channel_of_others(
    pager: channels.Found, account: Account, standin: Standin, admin_client: Client, settings: Any
) -> None:
    assert pager.problems == [] and channels.label("pager") == "Pager"
    assert services.channel_of(" Pager ") == "pager"
    assert account.get_channel_display() == "Pager"
    with pytest.raises(Refused, match="has 21 characters; the channel takes 20"):
        services.enqueue(account, Content(caption="x" * 21))
    plan = plan_verbs.create_with(
        "acme", "Bread", {"caption": "Rolls"},
        [plans.Place("pager", "2031-05-01T10:00")], by="ada",
    )  # fmt: skip
    plan_verbs.submit(plan.pk, by="ada")
    plan_verbs.approve(plan.pk, by="bob")
    plan_verbs.schedule(plan.pk, by="ada", at_once=True)
    row = Publication.objects.get()
    for path in ("calendar/", f"plan/{plan.pk}/change/", f"publication/{row.pk}/change/"):
        assert "Pager" in admin_client.get(f"/admin/publisher/{path}").content.decode(), path
    with freeze_clock(row.run_at):
        assert run_jobs(["publisher"]).succeeded == 1
    row.refresh_from_db()
    assert (row.status, row.remote_id) == ("completed", str(standin.posts["blog"][0]["id"]))
    assert [one["content"] for one in standin.posts["blog"]] == ["Rolls"]
    settings.PUBLISHER = {"CHANNELS": {"pager": {"CONCURRENCY": 2}}}
    assert config.settings().channel("pager").CONCURRENCY == 2


@pytest.mark.django_db
def test_rows_of_a_channel_that_is_gone_are_shown(account: Account, admin_client: Client) -> None:
    Brand.objects.update(posting_times=[{"time": "09:00", "days": []}])
    row = Publication.objects.create(
        brand=account.brand, tenant=account.tenant, account=account, channel="pager", key="k",
        content={"caption": "Bread"}, scheduled_at="2031-05-01T10:00Z", run_at="2031-05-01T10:00Z",
        publish_until="2031-05-02T10:00Z",
    )  # fmt: skip
    for path in (
        "calendar/?on=2031-05-01", "publication/", f"publication/{row.pk}/change/", "account/",
        f"account/{account.pk}/change/", f"brand/{account.brand_id}/change/",
    ):  # fmt: skip
        answer = admin_client.get(f"/admin/publisher/{path}")
        assert answer.status_code == 200, path
    [fault] = connectors.of("pager").faults(Content(caption="Bread"))
    assert fault.message == "its connector is not installed"
    with pytest.raises(Refused):
        services.channel_of("pager")


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ({"x": "pager_of_test:Pager"}, "'x' is a channel of the publisher itself"),
        ({"Pager": "pager_of_test:Pager"}, "'Pager' is no name of a channel"),
        ({"pager": "nowhere:Pager"}, "'pager' cannot be loaded: ModuleNotFoundError"),
        ({"pager": "pager_of_test:Nobody"}, "'pager' cannot be loaded: AttributeError"),
        ({"pager": "pager_of_test:Connector"}, "'pager' cannot be loaded: TypeError"),
        ({"pager": "pager_of_test:Fault"}, "'pager' cannot be loaded: TypeError"),
        ({"pager": "pager_of_test:id_of"}, "'pager' is no publisher.connectors.Connector"),
    ],
)
def test_a_broken_entry_point_is_a_check_and_no_crash(
    tmp_path: Path, points: dict[str, str], words: str
) -> None:
    (tmp_path / "pager_of_test.py").write_text(PAGER)
    distribution(tmp_path, points)
    with plugged(tmp_path) as found:
        assert found.connectors == {} and channels.names() == channels.Channel.values
        [error] = [
            one for one in checks.run_checks(tags=["publisher"]) if one.id == "publisher.E002"
        ]
    assert words in error.msg and "pager-connector 1.0" in error.msg
    sys.modules.pop("pager_of_test", None)


def test_a_channel_that_two_distributions_register_is_neithers(tmp_path: Path) -> None:
    (tmp_path / "pager_of_test.py").write_text(PAGER + "\n\nclass Other(Pager):\n    pass\n")
    distribution(tmp_path, {"pager": "pager_of_test:Pager", "other": "pager_of_test:Other"})
    distribution(tmp_path, {"pager": "pager_of_test:Other"}, name="second")
    with plugged(tmp_path) as found:
        assert list(found.connectors) == ["other"]
        [words] = found.problems
    assert "several distributions" in words and "second 1.0" in words
    sys.modules.pop("pager_of_test", None)


@pytest.mark.slow
def test_a_process_that_starts_knows_the_channel_everywhere(tmp_path: Path) -> None:
    """As a choice of the command line and the API, as a kind, and without a new migration."""
    (tmp_path / "pager_of_test.py").write_text(PAGER)
    distribution(tmp_path, {"pager": "pager_of_test:Pager"})
    code = (
        "import django; django.setup()\n"
        "from jobs import registry\n"
        "from jobs.operate import verbs\n"
        "connect = verbs.find('brand.connect').parameters\n"
        "assert ['pager'] == [one.choices[-1] for one in connect if one.name == 'channel']\n"
        "print(registry.get('publisher.pager').queue)\n"
        "from publisher import drafts\n"
        "given = {'caption': 'a', 'overrides': {'pager': {'caption': 'b'}}}\n"
        "print(drafts.read(given).on('pager').text)\n"
        "from config.api import api\n"
        "print('pager' in str(api.get_openapi_schema()))\n"
    )
    env = {
        **os.environ, "PYTHONPATH": str(tmp_path), "DJANGO_SETTINGS_MODULE": "tests.settings",
    }  # fmt: skip

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=CHECKOUT, env=env, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return done.stdout

    assert run("-c", code).splitlines()[-3:] == ["publisher", "b", "True"]
    assert "pager" not in channels.names()
