"""Plans: who may do what, what voids an approval, and how slots become publications."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User

import jobs
from config.standins.publisher import Standin
from jobs.acts import Principal
from jobs.engine import outbox
from jobs.errors import Denied
from jobs.models import Audit
from jobs.operate import people
from jobs.testing import freeze_clock, run_jobs
from publisher import access, member_verbs, plan_verbs, plans, services, verbs
from publisher.errors import Refused
from publisher.models import Account, Approval, Brand, Member, Plan, Publication, Slot

pytestmark = pytest.mark.django_db
AT = "2031-05-01T10:00"
THREE = ("meta_facebook", "google_business", "wordpress_blog")
CONTENT = {"caption": "Fresh bread from seven", "title": "Bread"}


def places(*channels: str, at: str = AT) -> list[plans.Place]:
    return [plans.Place(one, at) for one in channels or THREE]


def made(*channels: str, at: str = AT, content: Any = CONTENT) -> UUID:
    return plan_verbs.create_with("acme", "Bread", content, places(*channels, at=at), by="ada").pk


def approved(*channels: str, **how: Any) -> UUID:
    plan_id = made(*channels, **how)
    plan_verbs.submit(plan_id, by="ada")
    plan_verbs.approve(plan_id, by="bob")
    return plan_id


def scheduled(*channels: str, **how: Any) -> UUID:
    plan_id = approved(*channels, **how)
    plan_verbs.schedule(plan_id, by="ada")
    return plan_id


def status_of(plan_id: UUID) -> str:
    return Plan.objects.get(pk=plan_id).status


def slot_of(plan_id: UUID, channel: str = "meta_facebook") -> Slot:
    return Slot.objects.select_related("publication").get(plan=plan_id, channel=channel)


def relay() -> None:
    """Tell the events that wait."""
    while outbox.relay_once().moved:
        pass


def finish(moment: datetime) -> None:
    """Let the time of the posts come, and the events of their ends be told."""
    with freeze_clock(moment):
        run_jobs(["publisher"])
    relay()


def test_a_plan_appears_on_three_channels(accounts: dict[str, Account], standin: Standin) -> None:
    plan_id = scheduled()
    assert status_of(plan_id) == "scheduled" and not standin.posts["page"]
    assert {one.scheduled_at for one in Publication.objects.all()} == {
        datetime(2031, 5, 1, 8, tzinfo=UTC)
    }
    finish(datetime(2031, 5, 1, 8, tzinfo=UTC))
    assert status_of(plan_id) == "published"
    assert [len(standin.posts[one]) for one in ("page", "accounts/1/loc/2", "blog")] == [1, 1, 1]


def test_only_one_step_at_a_time(accounts: dict[str, Account]) -> None:
    plan_id = made()
    for act in (plan_verbs.approve, plan_verbs.schedule):
        with pytest.raises(Refused, match="it must be"):
            act(plan_id, by="ada")
    plan_verbs.submit(plan_id, by="ada")
    with pytest.raises(Refused, match="it must be approved"):
        plan_verbs.schedule(plan_id, by="ada")
    assert status_of(plan_id) == "ready" and not Publication.objects.exists()


def test_a_failed_post_fails_the_plan_and_a_replay_schedules_it_again(
    accounts: dict[str, Account], standin: Standin
) -> None:
    plan_id = scheduled("meta_facebook", "wordpress_blog")
    Account.objects.filter(channel="wordpress_blog").update(status="disabled")
    with freeze_clock(datetime(2031, 5, 1, 8, tzinfo=UTC)) as clock:
        run_jobs(["publisher"])
        relay()
        assert status_of(plan_id) == "scheduled"
        clock.tick(timedelta(days=1, minutes=1).total_seconds())
        run_jobs(["publisher"])
        relay()
        assert status_of(plan_id) == "failed"
        Account.objects.update(status="connected")
        row = slot_of(plan_id, "wordpress_blog").publication
        assert row is not None
        verbs.replay(row.pk, by="ada", reason="back again")
        relay()
        assert status_of(plan_id) == "scheduled"
        run_jobs(["publisher"])
        relay()
    assert status_of(plan_id) == "published"
    assert len(standin.posts["page"]) == len(standin.posts["blog"]) == 1


def test_an_edit_voids_the_approval_and_cancels_what_waits(accounts: dict[str, Account]) -> None:
    plan_id = scheduled()
    plan_verbs.edit(plan_id, by="ada", caption="Fresh bread from six")
    plan = Plan.objects.get(pk=plan_id)
    assert (plan.status, plan.version) == ("draft", 2)
    assert Approval.objects.get().voided_at is not None
    assert set(Publication.objects.values_list("status", "reason")) == {("failed", "cancelled")}
    assert {job.state for job in jobs.Job.objects.all()} == {"cancelled"}
    with pytest.raises(Refused, match="its plan has changed"):
        verbs.replay(Publication.objects.all()[0].pk, by="ada", reason="again")
    plan_verbs.submit(plan_id, by="ada")
    plan_verbs.approve(plan_id, by="bob")
    plan_verbs.schedule(plan_id, by="ada")
    waiting = Publication.objects.filter(status="pending")
    assert [one.content["caption"] for one in waiting] == ["Fresh bread from six"] * 3


def test_an_edit_that_changes_nothing_keeps_the_approval(accounts: dict[str, Account]) -> None:
    plan_id = scheduled()
    plan_verbs.edit(plan_id, by="ada", caption=CONTENT["caption"])
    assert (status_of(plan_id), Plan.objects.get().version) == ("scheduled", 1)


def test_an_operator_cannot_send_what_was_withdrawn(
    accounts: dict[str, Account], standin: Standin
) -> None:
    plan_id = scheduled("meta_facebook", at=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    plan_verbs.edit(plan_id, by="ada", caption="Fresh bread from six")
    job = jobs.Job.objects.get()
    jobs.retry(job.pk, by="operator", reason="why not", reset=True)
    run_jobs(["publisher"])
    assert not standin.posts["page"]
    assert Publication.objects.get().status == "failed"


def test_what_has_appeared_is_closed(accounts: dict[str, Account], standin: Standin) -> None:
    plan_id = made("meta_facebook")
    plan_verbs.add_slot(plan_id, "wordpress_blog", "2031-05-02T10:00", by="ada")
    plan_verbs.submit(plan_id, by="ada")
    plan_verbs.approve(plan_id, by="bob")
    plan_verbs.schedule(plan_id, by="ada")
    finish(datetime(2031, 5, 1, 8, tzinfo=UTC))
    assert status_of(plan_id) == "scheduled"
    closed = slot_of(plan_id)
    acts: list[Callable[[], object]] = [
        lambda: plan_verbs.move_slot(closed.pk, "2031-05-03T10:00", by="ada"),
        lambda: plan_verbs.remove_slot(closed.pk, by="ada"),
    ]
    for act in acts:
        with pytest.raises(Refused, match="closed"):
            act()
    plan_verbs.edit(plan_id, by="ada", caption="Fresh bread from six")
    plan_verbs.submit(plan_id, by="ada")
    plan_verbs.approve(plan_id, by="bob")
    plan_verbs.schedule(plan_id, by="ada")
    finish(datetime(2031, 5, 2, 8, tzinfo=UTC))
    assert status_of(plan_id) == "published"
    assert [one["message"] for one in standin.posts["page"]] == ["Fresh bread from seven"]
    assert len(standin.posts["blog"]) == 1


def test_a_slot_that_moves_there_and_back_keeps_its_approval_and_is_published_once(
    accounts: dict[str, Account], standin: Standin
) -> None:
    plan_id = scheduled("meta_facebook")
    slot = slot_of(plan_id)
    first = slot.publication_id
    assert first is not None
    plan_verbs.move_slot(slot.pk, "2031-05-01T11:00", by="ada")
    assert slot_of(plan_id).publication_id != first
    with pytest.raises(Refused, match="its slot has moved"):
        verbs.replay(first, by="ada", reason="again")
    plan_verbs.move_slot(slot.pk, AT, by="ada")
    assert slot_of(plan_id).publication_id == first
    assert status_of(plan_id) == "scheduled" and Approval.objects.get().voided_at is None
    relay()
    assert status_of(plan_id) == "scheduled"
    finish(datetime(2031, 5, 1, 9, tzinfo=UTC))
    assert status_of(plan_id) == "published" and len(standin.posts["page"]) == 1


def test_two_plans_do_not_share_a_publication(accounts: dict[str, Account]) -> None:
    scheduled("meta_facebook")
    other = approved("meta_facebook")
    with pytest.raises(Refused, match="another slot has the same text"):
        plan_verbs.schedule(other, by="ada")
    assert status_of(other) == "approved" and Publication.objects.count() == 1


def test_an_added_slot_needs_another_approval_and_a_removed_one_does_not(
    accounts: dict[str, Account],
) -> None:
    plan_id = scheduled("meta_facebook", "wordpress_blog")
    plan_verbs.remove_slot(slot_of(plan_id, "wordpress_blog").pk, by="ada")
    assert status_of(plan_id) == "scheduled"
    assert Publication.objects.get(channel="wordpress_blog").reason == "cancelled"
    with pytest.raises(Refused, match="needs a slot"):
        plan_verbs.remove_slot(slot_of(plan_id).pk, by="ada")
    plan_verbs.add_slot(plan_id, "google_business", AT, by="ada")
    assert status_of(plan_id) == "draft"


def test_a_time_that_has_passed_is_not_scheduled(accounts: dict[str, Account]) -> None:
    plan_id = approved("meta_facebook")
    with (
        freeze_clock(datetime(2031, 5, 2, tzinfo=UTC)),
        pytest.raises(Refused, match="lies in the past"),
    ):
        plan_verbs.schedule(plan_id, by="ada")
    assert status_of(plan_id) == "approved"


@pytest.mark.parametrize(
    ("local", "shown", "utc", "note"),
    [
        ("2031-03-30T02:30", "2031-03-30T03:30:00", "2031-03-30T01:30:00+00:00", "skipped"),
        ("2031-03-30T03:30", "2031-03-30T03:30:00", "2031-03-30T01:30:00+00:00", ""),
        ("2031-10-26T02:30", "2031-10-26T02:30:00", "2031-10-26T00:30:00+00:00", "doubled"),
        ("2031-10-26T03:30", "2031-10-26T03:30:00", "2031-10-26T02:30:00+00:00", ""),
        ("2031-10-26T02:30+01:00", "2031-10-26T02:30:00", "2031-10-26T01:30:00+00:00", ""),
    ],
)
def test_slots_follow_the_clocks_of_the_brand(
    local: str, shown: str, utc: str, note: str, accounts: dict[str, Account]
) -> None:
    slot = slot_of(made("meta_facebook", at=local))
    assert (slot.local_time, slot.at.isoformat(), slot.note) == (shown, utc, note)
    assert slot.zone == "Europe/Rome"


def test_a_channel_gets_what_it_has_and_its_own_text(accounts: dict[str, Account]) -> None:
    content = {
        **CONTENT, "link": "https://acme.test/bread", "ig_first_comment": "Order today",
        "media": [{"url": "https://media.acme.test/a.jpg"}],
        "overrides": {"meta_facebook": {"caption": "For the page", "media": []}},
    }  # fmt: skip
    plan_id = made("meta_facebook", "meta_instagram", "meta_instagram_stories", content=content)
    draft = plans.draft_of(Plan.objects.get(pk=plan_id))
    page, feed, story = (
        draft.on(one) for one in ("meta_facebook", "meta_instagram", "meta_instagram_stories")
    )
    assert (page.text, page.link, page.media) == ("For the page", "https://acme.test/bread", [])
    assert (feed.link, feed.ig_first_comment) == ("", "Order today")
    assert (story.text, story.link, story.ig_first_comment) == ("", "", "")
    plan_verbs.submit(plan_id, by="ada")


def test_what_a_channel_would_refuse_is_not_ready(accounts: dict[str, Account]) -> None:
    plan_id = made("meta_facebook", "meta_instagram", content={"caption": "Hello {{name}}"})
    with pytest.raises(Refused) as refused:
        plan_verbs.submit(plan_id, by="ada")
    assert refused.value.code == "fp_publisher_preflight_blocked"
    assert {one.field for one in refused.value.faults} == {"content/caption", "content/media"}


def person(name: str, role: str, brand: Brand) -> Principal:
    """A user with every permission of Django's, and a role in the brand."""
    user = User.objects.create_user(name)
    user.user_permissions.set(Permission.objects.all())
    if role:
        Member.objects.create(brand=brand, tenant=brand.tenant, user=user, role=role)
    principal = people.of_user(User.objects.get(pk=user.pk), via="api")
    return jobs.acts.Principal(
        principal.name, "api", principal.permissions, user_id=principal.user_id
    )


def test_an_editor_cannot_approve(brand: Brand, accounts: dict[str, Account]) -> None:
    editor, viewer, approver, stranger = (
        person(name, role, brand)
        for name, role in (("eve", "editor"), ("vic", "viewer"), ("bob", "approver"), ("sam", ""))
    )
    with pytest.raises(Denied):
        plan_verbs.create("acme", "No", by=viewer)
    plan_id = plan_verbs.create(
        "acme", "Bread", by=editor, caption="Hello", channels=["meta_facebook"], at=AT
    ).pk
    with pytest.raises(Denied):
        plan_verbs.submit(plan_id, by=viewer)
    plan_verbs.comment(plan_id, "Nice, @eve", by=viewer)
    with pytest.raises(Denied):
        plan_verbs.comment(plan_id, "Nice", by=stranger)
    plan_verbs.submit(plan_id, by=editor)
    for nobody in (viewer, editor, stranger):
        with pytest.raises(Denied, match="'approver'"):
            plan_verbs.approve(plan_id, by=nobody)
    assert status_of(plan_id) == "ready"
    with pytest.raises(Denied):
        verbs.schedule(accounts["meta_facebook"].pk, datetime(2031, 1, 1, tzinfo=UTC), by=editor)
    plan_verbs.approve(plan_id, by=approver)
    plan_verbs.schedule(plan_id, by=editor)
    with pytest.raises(Denied):
        member_verbs.set_member(brand.pk, "eve", "manager", by=approver, reason="more")
    [entry] = Audit.objects.filter(action="brand.set_member")
    assert (entry.outcome, entry.actor) == ("denied", "bob")


def test_a_role_is_no_substitute_for_a_permission(
    brand: Brand, accounts: dict[str, Account]
) -> None:
    user = User.objects.create_user("bob")
    Member.objects.create(brand=brand, tenant=brand.tenant, user=user, role="manager")
    plan_id = made()
    with pytest.raises(Denied, match="change_plan"):
        plan_verbs.submit(plan_id, by=people.of_user(user, via="api"))


def test_members_see_their_brands(brand: Brand, settings: Any) -> None:
    User.objects.create_user("eve")
    member_verbs.set_member(brand.pk, "eve", "viewer", by="root", reason="new")
    member_verbs.set_member(brand.pk, "eve", "editor", by="root", reason="more")
    user = User.objects.get(username="eve")
    assert Member.objects.get().role == "editor"
    settings.JOBS = {**settings.JOBS, "SCOPE": ["publisher.access.scope"]}
    assert people.scope_of(user).tenants == frozenset({"brand:acme", f"user:{user.pk}"})
    member_verbs.remove_member(brand.pk, "eve", by="root", reason="left")
    assert access.scope(user) is None
    with pytest.raises(Refused, match="is no member"):
        member_verbs.remove_member(brand.pk, "eve", by="root", reason="left")


def test_a_comment_mentions_members_only(brand: Brand, accounts: dict[str, Account]) -> None:
    for name in ("eve", "sam"):
        User.objects.create_user(name)
    member_verbs.set_member(brand.pk, "eve", "editor", by="root", reason="new")
    plan_id = made()
    plan_verbs.comment(plan_id, "@eve and @sam, mail eve@acme.test. @eve.", by="bob")
    [said] = Plan.objects.get(pk=plan_id).comments.all()
    assert said.mentions == ["eve"]


def test_a_copy_is_a_draft_without_slots(accounts: dict[str, Account]) -> None:
    plan_id = scheduled()
    copied = Plan.objects.get(pk=plan_verbs.copy(plan_id, by="ada", title="Once more"))
    assert (copied.status, copied.slots.count(), copied.title) == ("draft", 0, "Once more")
    assert plans.current(copied).content == CONTENT


def test_another_brands_account_is_none(accounts: dict[str, Account], standin: Standin) -> None:
    other = services.create_brand("other", "Other")
    theirs = Account.objects.create(
        brand=other, tenant=other.tenant, channel="meta_facebook", name="Theirs", token="t",
        remote_account="page",
    )  # fmt: skip
    with pytest.raises(Refused) as refused:
        plan_verbs.create_with(
            "acme", "Bread", CONTENT, [plans.Place("meta_facebook", AT, theirs.pk)], by="ada"
        )
    assert [one.field for one in refused.value.faults] == ["slots/0/account"]
    assert not Plan.objects.exists()
