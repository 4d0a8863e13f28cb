"""Acting: permission, scope, and one row of the audit that commits with what was done."""

from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import DatabaseError, connection, transaction
from django.test import override_settings

from jobs import checks
from jobs.errors import (
    ConfigError,
    Denied,
    InvalidOption,
    NotAllowed,
    UnknownJob,
    UnknownTarget,
)
from jobs.ids import uuid7
from jobs.models import Audit
from jobs.operate import acts, people, targets
from jobs.operate.groups import create_groups, groups
from jobs.principals import (
    ALL,
    EVERYTHING,
    PERMISSIONS,
    Principal,
    Scope,
    add_group,
    every_permission,
)
from jobs.signals import operator_action
from tests.jobs.factories import a_job, sql

RETRY = frozenset({"retry_job"})


def somebody(permissions: frozenset[str] = RETRY, scope: Scope = EVERYTHING) -> Principal:
    return Principal("ana", "api", permissions, scope, request_id="r-1")


def touch(job_id: UUID, by: Any, error: Exception | None = None, reason: str = "because") -> None:
    with acts.on(
        "job.retry", kind="job", id=job_id, permission="retry_job", by=by, reason=reason
    ) as act:
        sql("UPDATE jobs_job SET correlation_id = 'touched' WHERE id = %s", [job_id])
        act.changed({"priority": 1, "queue": "a"}, {"priority": 2, "queue": "a"})
        if error:
            raise error


def is_touched(job_id: UUID) -> bool:
    return sql("SELECT correlation_id FROM jobs_job WHERE id = %s", [job_id]) == [("touched",)]


@pytest.mark.django_db
def test_what_was_done_is_written_once() -> None:
    job = a_job(tenant="acme", queue="mail")
    touch(job, somebody())
    row = Audit.objects.get()
    assert (row.actor, row.via, row.action, row.reason) == ("ana", "api", "job.retry", "because")
    assert (row.target_kind, row.target_id, row.tenant, row.queue) == (
        "job",
        str(job),
        "acme",
        "mail",
    )
    assert (row.outcome, row.count, row.request_id) == ("done", 1, "r-1")
    assert row.detail == {"before": {"priority": 1}, "after": {"priority": 2}}
    assert is_touched(job)


@pytest.mark.django_db
def test_code_may_everything_and_is_written_down_too() -> None:
    job = a_job()
    touch(job, "nightly")
    assert (Audit.objects.get().actor, Audit.objects.get().via) == ("nightly", "code")


@pytest.mark.django_db
def test_without_the_permission_nothing_happens() -> None:
    job = a_job(tenant="acme")
    with pytest.raises(Denied) as caught:
        touch(job, somebody(ALL - RETRY))
    assert caught.value.permission == "retry_job" and not is_touched(job)
    row = Audit.objects.get()
    assert (row.outcome, row.tenant, row.detail) == (
        "denied",
        "acme",
        {"permission": "retry_job"},
    )


@pytest.mark.django_db
@pytest.mark.parametrize("job", [{"tenant": "other"}, {}, {"tenant": "acme", "queue": "hidden"}])
def test_out_of_scope_is_as_if_it_did_not_exist(job: dict[str, Any]) -> None:
    scope = Scope(frozenset({"acme"}), frozenset({"default"}))
    job_id, nobody = a_job(**job), uuid7()
    with pytest.raises(UnknownJob) as hidden:
        touch(job_id, somebody(scope=scope))
    with pytest.raises(UnknownJob) as missing:
        touch(nobody, somebody(scope=scope))
    assert str(hidden.value).replace(str(job_id), "") == str(missing.value).replace(str(nobody), "")
    assert not is_touched(job_id)
    outcomes = dict(Audit.objects.values_list("target_id", "outcome"))
    assert outcomes == {str(job_id): "denied", str(nobody): "refused"}


@pytest.mark.django_db
def test_a_refusal_is_taken_back_and_written_with_what_is_allowed() -> None:
    job = a_job()
    with pytest.raises(NotAllowed):
        touch(job, somebody(), NotAllowed("retry", job, "pending", ["failed"]))
    row = Audit.objects.get()
    assert row.outcome == "refused" and not is_touched(job)
    assert (row.detail["state"], row.detail["allowed"]) == ("pending", ["failed"])
    assert "it must be failed" in row.detail["message"]


@pytest.mark.django_db
def test_a_reason_is_asked_for_after_permission_and_before_anything_else() -> None:
    job = a_job()
    with (
        pytest.raises(InvalidOption, match="reason"),
        acts.on(
            "job.x",
            kind="job",
            id=job,
            permission="retry_job",
            by=somebody(),
            needs_reason=True,
        ),
    ):
        raise AssertionError("never entered")
    assert Audit.objects.get().outcome == "refused"


@pytest.mark.django_db(transaction=True)
def test_a_rollback_leaves_no_row() -> None:
    job = a_job()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        touch(job, somebody())
        raise ZeroDivisionError
    assert not Audit.objects.exists() and not is_touched(job)
    with pytest.raises(ZeroDivisionError):
        touch(job, somebody(), ZeroDivisionError())
    assert not Audit.objects.exists() and not is_touched(job)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("permissions", [RETRY, frozenset[str]()])
def test_a_refusal_survives_the_rollback_around_it(permissions: frozenset[str]) -> None:
    job = a_job()
    told: list[Any] = []
    listen = lambda record, **_: told.append(record)  # noqa: E731
    operator_action.connect(listen)
    error: Denied | NotAllowed
    try:
        with transaction.atomic():
            touch(job, somebody(permissions), NotAllowed("retry", job, "pending", []))
    except (Denied, NotAllowed) as caught:
        error = caught
    assert not Audit.objects.exists() and told == []
    acts.settle(error)
    acts.settle(error)
    operator_action.disconnect(listen)
    assert Audit.objects.count() == 1 and len(told) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("change", ["UPDATE jobs_audit SET actor = 'b'", "DELETE FROM jobs_audit"])
def test_the_audit_stays_as_it_is(change: str) -> None:
    touch(a_job(), somebody())
    with pytest.raises(DatabaseError, match="stays as it is"), transaction.atomic():
        sql(change)
    sql("SELECT set_config('jobs.retention', 'on', true)")
    if change.startswith("DELETE"):
        sql(change)
        assert not Audit.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_fails_stops_nobody() -> None:
    def fail(**_: Any) -> None:
        raise ZeroDivisionError

    job = a_job()
    operator_action.connect(fail)
    touch(job, somebody())
    operator_action.disconnect(fail)
    assert is_touched(job)


@pytest.mark.django_db(transaction=True)
def test_django_s_history_shows_what_a_user_did() -> None:
    user = User.objects.create_superuser("root")
    job = a_job()
    touch(job, people.of_user(user, via="admin"))
    touch(job, "nightly")
    entry = LogEntry.objects.get()
    assert (entry.user_id, entry.object_id) == (user.pk, str(job))
    assert entry.change_message == "job.retry: because"


# ---- people and groups


@pytest.mark.django_db
def test_a_user_is_somebody_with_his_permissions_and_his_own_tenant() -> None:
    user = User.objects.create_user("ana")
    user.user_permissions.add(
        Permission.objects.get(content_type__app_label="jobs", codename="retry_job")
    )
    user = User.objects.get(pk=user.pk)
    who = people.of_user(user, via="api", request_id="r")
    assert (who.name, who.via, who.request_id) == ("ana", "api", "r")
    assert who.permissions == RETRY and not who.is_staff
    assert who.scope == Scope(tenants=frozenset({f"user:{user.pk}"}))
    assert people.of_user(user, via="api", request_id="r") is who


@pytest.mark.django_db
def test_who_sees_everything_and_who_nothing() -> None:
    root = people.of_user(User.objects.create_superuser("root"), via="admin")
    assert (
        root.permissions == every_permission() >= ALL and root.scope is EVERYTHING and root.is_staff
    )
    staff = people.of_user(User.objects.create_user("s", is_staff=True), via="admin")
    assert staff.permissions == frozenset() and staff.scope is EVERYTHING
    gone = User.objects.create_superuser("gone", is_active=False)
    for user in (AnonymousUser(), gone):
        who = people.of_user(user, via="api")
        assert not who.permissions and not who.scope.covers("user:1") and not who.is_staff


def two_tenants(user: Any) -> Scope:
    return Scope(tenants=frozenset({"acme", user.username}))


def nonsense(user: Any) -> str:
    return "everything"


@pytest.mark.django_db
def test_the_project_says_what_a_user_sees() -> None:
    with override_settings(JOBS={"SCOPE": f"{__name__}.two_tenants"}):
        who = people.of_user(User.objects.create_user("ana"), via="api")
    assert who.scope == Scope(tenants=frozenset({"acme", "ana"}))


@pytest.mark.django_db
@pytest.mark.parametrize("path", [f"{__name__}.nonsense", "nowhere.at.all", "os.sep"])
def test_a_wrong_hook_is_named(path: str) -> None:
    with override_settings(JOBS={"SCOPE": path}), pytest.raises(ConfigError, match="SCOPE"):
        people.of_user(User.objects.create_user("ana"), via="api")


def of_brands(user: Any) -> Scope | None:
    return Scope(frozenset({"brand:a", "brand:b"})) if user.username.startswith("ana") else None


def of_agents(user: Any) -> Scope | None:
    return Scope(frozenset({"agent:1"}), frozenset({"operations", "mail"}))


def only_mail(user: Any) -> Scope | None:
    return Scope(frozenset(), frozenset({"mail", "web"}))


def everybody(user: Any) -> Scope | None:
    return Scope()


def abstains(user: Any) -> Scope | None:
    return None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("rules", "tenants", "queues"),
    [
        ([of_brands], {"brand:a", "brand:b"}, None),
        ([of_brands, abstains], {"brand:a", "brand:b"}, None),
        ([of_brands, of_agents], {"brand:a", "brand:b", "agent:1"}, {"operations", "mail"}),
        ([of_agents, only_mail, of_brands], {"brand:a", "brand:b", "agent:1"}, {"mail"}),
        ([of_agents, everybody], None, {"operations", "mail"}),
        ([abstains], set(), None),
        ([], set(), None),
    ],
)
@pytest.mark.parametrize("is_staff", [False, True])
def test_each_app_says_what_it_knows_of_a_user(
    rules: list[Any], tenants: set[str] | None, queues: set[str] | None, is_staff: bool
) -> None:
    """Tenants add up, queues narrow, and who is known to nobody is seen as without rules."""
    user = User.objects.create_user("ana", is_staff=is_staff)
    paths = [f"{__name__}.{rule.__name__}" for rule in rules]
    with override_settings(JOBS={"SCOPE": paths}):
        scope = people.of_user(user, via="api").scope
    if is_staff and tenants == set():
        assert scope == Scope()
        return
    assert scope.tenants == (None if tenants is None else {f"user:{user.pk}", *tenants})
    assert scope.queues == queues


@pytest.mark.django_db
def test_the_order_of_the_rules_makes_no_difference() -> None:
    user = User.objects.create_user("ana")
    rules = (of_brands, of_agents, only_mail, abstains)
    found = set()
    for order in itertools.permutations(f"{__name__}.{rule.__name__}" for rule in rules):
        with override_settings(JOBS={"SCOPE": order}):
            found.add(people.scope_of(user))
    assert len(found) == 1


@pytest.mark.django_db
def test_a_single_rule_has_to_answer_for_everybody() -> None:
    user = User.objects.create_user("ana")
    with override_settings(JOBS={"SCOPE": f"{__name__}.abstains"}), pytest.raises(ConfigError):
        people.scope_of(user)
    with (
        override_settings(JOBS={"SCOPE": [f"{__name__}.nonsense"]}),
        pytest.raises(ConfigError, match="must answer a Scope"),
    ):
        people.scope_of(user)


def test_a_rule_that_does_not_exist_is_an_error_of_the_check() -> None:
    for given in ("nowhere.at.all", [f"{__name__}.two_tenants", "nowhere.at.all"]):
        with override_settings(JOBS={"SCOPE": given}):
            assert [one.id for one in checks.settings.scope_rules_exist()] == ["jobs.E006"]
    with override_settings(JOBS={"SCOPE": [f"{__name__}.two_tenants"]}):
        assert checks.settings.scope_rules_exist() == []


@pytest.mark.django_db
def test_the_groups_are_made_once_and_keep_what_was_added() -> None:
    made = create_groups()
    assert set(made) >= {"jobs viewer", "jobs operator", "jobs administrator"}
    viewer = Group.objects.get(name="jobs viewer")
    viewer.permissions.add(
        Permission.objects.get(content_type__app_label="jobs", codename="cancel_job")
    )
    assert set(create_groups().values()) == {0}
    assert viewer.permissions.filter(codename="cancel_job").exists()
    ours = set(viewer.permissions.values_list("codename", flat=True)) - {"cancel_job"}
    assert all(name.startswith("view_") for name in ours)


@pytest.mark.django_db
def test_the_groups_of_apps_are_made_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.principals._GROUPS", {})
    add_group("Carriers", ["jobs.view_job", "cancel_job"])
    assert create_groups()["Carriers"] == 2
    held = Group.objects.get(name="Carriers").permissions.values_list("codename", flat=True)
    assert set(held) == {"view_job", "cancel_job"}


@pytest.mark.django_db
def test_a_group_may_do_the_verbs_of_apps_that_say_so() -> None:
    create_groups()
    held = {
        name: set(Group.objects.get(name=f"jobs {name}").permissions.values_list(
            "content_type__app_label", "codename"))
        for name in ("viewer", "operator", "administrator")
    }  # fmt: skip
    suppress, suspend = ("emailgw", "change_suppression"), ("emailgw", "change_company")
    assert suppress in held["operator"] and suspend not in held["operator"]
    assert {suppress, suspend} <= held["administrator"] and not {suppress} & held["viewer"]


@pytest.mark.django_db
def test_operators_see_what_apps_store_but_not_what_is_revealed_to_administrators() -> None:
    allowed = groups()
    seen = {
        "emailgw.view_outboxemail", "fileproc.view_file", "operations.view_operation",
        "publisher.view_publication", "trading.view_importrun", "trading.view_trade",
    }  # fmt: skip
    assert seen <= allowed["operator"] and not seen & allowed["viewer"]
    assert "fileproc.view_content" not in allowed["operator"]
    assert "fileproc.view_content" in allowed["administrator"]
    known = Permission.objects.values_list("content_type__app_label", "codename")
    assert seen <= {".".join(pair) for pair in known}


@pytest.mark.django_db
def test_every_permission_exists() -> None:
    known = set(
        Permission.objects.filter(content_type__app_label="jobs").values_list("codename", flat=True)
    )
    assert set(PERMISSIONS) <= known and "view_audit" in known
    assert "change_audit" not in known and "delete_audit" not in known


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "target"),
    [("job", "x"), ("job", None), ("deadletter", 2**70), ("event", True), ("schedule", "a\0b")],
)
def test_what_cannot_be_an_id_is_unknown(kind: str, target: object) -> None:
    with pytest.raises(UnknownTarget):
        targets.find(kind, target)
    assert connection.is_usable()
