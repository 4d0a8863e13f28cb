"""The specification of the queue, a test for each of its sentences."""

from __future__ import annotations

import threading
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import connection
from django.db.models import ProtectedError

import jobs
from config.standins.publisher import Standin
from jobs import queues, registry
from jobs.errors import IllegalMove, StaleClaim
from jobs.testing import freeze_clock, run_jobs
from publisher import clock, config, keys, services, signals, states, verbs
from publisher.content import Content
from publisher.models import Account, Brand, Channel, Publication
from publisher.payloads import PAYLOADS
from tests.publisher import factories
from tests.publisher.test_publishing import PUBLISHING, publish, run_for

AT = datetime(2031, 3, 3, 10, 0, tzinfo=UTC)
Status = Publication.Status


# ---- states


@pytest.mark.django_db
def test_the_states_are_four_and_have_these_edges() -> None:
    """Stati supportati: `pending`, `running`, `completed`, `failed`."""
    assert set(Status.values) == {"pending", "running", "completed", "failed"}
    ways = {one: set(states.publication.ways(one)) for one in Status.values}
    assert ways == {
        "pending": {"running", "failed"}, "running": {"completed", "failed", "pending"},
        "failed": {"pending"}, "completed": set(),
    }  # fmt: skip


@pytest.mark.django_db
def test_a_pending_job_waits_for_its_time(accounts: dict[str, Account], standin: Standin) -> None:
    """`pending`: Job pianificato, in attesa che arrivi l'orario di esecuzione."""
    post = factories.post("meta_facebook")
    with freeze_clock() as time:
        row = services.enqueue(
            accounts["meta_facebook"], post, run_at=clock.now() + timedelta(minutes=5)
        ).row
        run_jobs(["publisher"])
        assert (Publication.objects.get().status, standin.calls) == ("pending", [])
        time.tick(301)
        run_jobs(["publisher"])
    row.refresh_from_db()
    assert row.status == "completed" and row.remote_id


@pytest.mark.django_db
def test_nothing_leaves_completed(accounts: dict[str, Account], standin: Standin) -> None:
    """`completed`: Job eseguito con successo, eventuale `remote_id` salvato."""
    row = publish(accounts["meta_facebook"])
    for status in ("pending", "running", "failed"):
        with pytest.raises(IllegalMove):
            states.publication.move(row.pk, status)


# ---- idempotency


@pytest.mark.django_db
def test_the_key_of_a_planned_post_is_that_of_its_utc_second(accounts: dict[str, Account]) -> None:
    """Il worker converte `scheduled_at` in UTC per evitare collisioni dovute al fuso orario."""
    account, post = accounts["meta_facebook"], factories.post("meta_facebook")
    first = services.schedule(account, post, AT)
    rome = AT.astimezone(timezone(timedelta(hours=1)))
    again = services.schedule(account, post, rome)
    assert (first.is_new, again.is_new, again.row.pk) == (True, False, first.row.pk)
    other = services.schedule(account, factories.post("meta_facebook", "Other"), AT)
    assert other.is_new and other.row.key != first.row.key


@pytest.mark.django_db
def test_a_key_is_of_one_brand_and_channel(accounts: dict[str, Account], standin: Standin) -> None:
    """Ogni job richiede una `idempotency_key` univoca per canale."""
    others = factories.accounts(services.create_brand("other", "Other"), standin.url)
    rows = [
        services.enqueue(account, factories.post(account.channel), idempotency_key="same")
        for account in (accounts["meta_facebook"], accounts["google_business"],
                        others["meta_facebook"])
    ]  # fmt: skip
    assert all(made.is_new for made in rows)


@pytest.mark.django_db(transaction=True)
def test_twenty_at_once_with_one_key_make_one_job(accounts: dict[str, Account]) -> None:
    """Se esiste già un job per lo stesso `channel + key` viene restituito il record corrente senza
    creare duplicati."""
    account, post = accounts["meta_facebook"], factories.post("meta_facebook")
    made: list[services.Enqueued] = []
    start = threading.Barrier(20)

    def enqueue() -> None:
        start.wait()
        try:
            made.append(services.enqueue(account, post, idempotency_key="one"))
        finally:
            connection.close()

    threads = [threading.Thread(target=enqueue) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.row.pk for one in made}) == 1 and len(made) == 20
    assert sum(one.is_new for one in made) == 1
    assert Publication.objects.count() == jobs.Job.objects.filter(
        kind="publisher.meta_facebook"
    ).count() == 1  # fmt: skip


# ---- scheduler


@pytest.mark.django_db
def test_attempts_are_counted_as_they_begin_and_polls_are_not(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """`Queue::claim()` … incrementa il contatore dei tentativi in modo atomico."""
    standin.polls = 4
    row = publish(accounts["meta_instagram"], 180)
    assert (row.status, row.attempts) == ("completed", 1)
    assert sum(path.startswith("17") for method, path in standin.calls if method == "GET") > 4


def test_at_most_five_posts_run_at_once_and_one_of_an_account() -> None:
    """… applica i limiti di concorrenza per canale. Il numero massimo di tentativi è definito da
    `queue.max_attempts` (default 5).
    """
    assert queues.limit("publisher") == jobs.Limit(at_once=5)
    for payload in PAYLOADS.values():
        handler = registry.get(payload.kind)
        assert handler.per_key == jobs.Limit(at_once=1) and handler.max_attempts == 5
        assert not handler.replayable and handler.internal


# ---- retry and backoff


@pytest.mark.parametrize(
    ("failures", "least"), [(1, 60), (2, 120), (3, 240), (7, 3600), (99, 3600)]
)
def test_the_backoff_grows_with_a_random_part(failures: int, least: float) -> None:
    """Il backoff esponenziale utilizza `base`, `factor`, `max` e applica un jitter casuale."""
    backoff = config.Backoff()
    drawn = [backoff.drawn(failures) for _ in range(200)]
    assert backoff.delay(failures) == least
    assert all(least <= one <= min(least + 30, 3600) for one in drawn)
    assert least == 3600 or len(set(drawn)) > 100


@pytest.mark.django_db
def test_after_the_last_attempt_a_job_has_failed(
    accounts: dict[str, Account], standin: Standin, settings: Any
) -> None:
    """`failed`: Job terminato con errore non recuperabile o superati i tentativi."""
    settings.PUBLISHER = {**settings.PUBLISHER, "MAX_ATTEMPTS": 2}
    standin.misbehave("GET /user/content_publishing_limit", *["500"] * 20)
    row = publish(accounts["meta_instagram"], 1200)
    assert (row.status, row.reason, row.attempts) == ("failed", "exhausted", 2)
    assert jobs.get(row.pk).reason == "exhausted"
    assert not standin.posts["user"]


@pytest.mark.django_db
def test_a_retry_waits_for_the_time_that_its_row_shows(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """`Queue::markFailed()` decide se ripianificare il job (`pending` con nuovo `run_at`) …"""
    standin.misbehave("POST /page/feed", "500")
    row = services.enqueue(accounts["meta_facebook"], factories.post("meta_facebook")).row
    with freeze_clock():
        run_jobs(["publisher"])
        row.refresh_from_db()
        assert (row.status, row.attempts) == ("pending", 1) and row.error
        job = jobs.Job.objects.get(pk=row.pk)
        assert abs((job.run_at - row.run_at).total_seconds()) < 1
        assert 60 <= (row.run_at - clock.now()).total_seconds() <= 90


# ---- extensions


@pytest.mark.django_db
def test_a_receiver_processes_the_job_and_the_first_mark_decides(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """I connettori … dovranno agganciarsi a questo hook … tramite `Queue::markCompleted()` …"""
    kept: list[signals.ClaimedJob] = []

    def take(sender: str, job: signals.ClaimedJob, **_: Any) -> None:
        kept.append(job)
        job.mark_completed("ours-1")
        job.mark_failed("too late")

    signals.process_job.connect(take, sender=Channel.META_FACEBOOK)
    try:
        row = publish(accounts["meta_facebook"])
        other = publish(accounts["google_business"])
    finally:
        signals.process_job.disconnect(take, sender=Channel.META_FACEBOOK)
    assert (row.status, row.remote_id) == ("completed", "ours-1")
    assert not standin.posts["page"] and other.status == "completed"
    with pytest.raises(StaleClaim):
        kept[0].mark_completed("again")


@pytest.mark.django_db
@pytest.mark.parametrize(("retryable", "status"), [(True, "pending"), (False, "failed")])
def test_a_receiver_says_whether_to_try_again(
    retryable: bool, status: str, accounts: dict[str, Account], standin: Standin
) -> None:
    """… o segnare lo stato finale `failed` in base al flag `retryable`."""

    def refuse(sender: str, job: signals.ClaimedJob, **_: Any) -> None:
        job.mark_failed("our printer is on fire", retryable=retryable)

    signals.process_job.connect(refuse, sender=Channel.META_FACEBOOK)
    try:
        row = publish(accounts["meta_facebook"], 30)
    finally:
        signals.process_job.disconnect(refuse, sender=Channel.META_FACEBOOK)
    assert (row.status, row.error) == (status, "our printer is on fire")
    assert not standin.calls


# ---- replay


@pytest.mark.django_db
@pytest.mark.parametrize("channel", Channel.values)
def test_a_replay_runs_the_same_job_now_under_its_key(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    """Il replay azzera i tentativi, riposiziona `run_at` sull'orario corrente e mantiene la chiave
    di idempotenza per evitare duplicazioni lato provider."""
    account = accounts[channel]
    standin.misbehave(PUBLISHING[channel], "400")
    row = publish(account)
    assert (row.status, row.reason) == ("failed", "permanent")
    key = row.key
    verbs.replay(row.pk, by="tests", reason="the provider has fixed it")
    row.refresh_from_db()
    assert (row.status, row.attempts, row.error, row.key) == ("pending", 0, "", key)
    run_jobs(["publisher"])
    run_for(60)
    row.refresh_from_db()
    assert row.status == "completed"
    assert len(standin.posts[factories.POSTED[channel]]) == 1


@pytest.mark.django_db
def test_there_and_back_publishes_once(accounts: dict[str, Account], standin: Standin) -> None:
    with freeze_clock() as time:
        ten = clock.now() + timedelta(hours=1)
        eleven = ten + timedelta(hours=1)
        account, post = accounts["meta_facebook"], factories.post("meta_facebook")
        first = services.schedule(account, post, ten).row
        verbs.move(first.pk, eleven, by="tests")
        first.refresh_from_db()
        assert (first.status, first.reason) == ("failed", "cancelled")
        second = Publication.objects.exclude(pk=first.pk).get()
        verbs.move(second.pk, ten, by="tests")
        first.refresh_from_db()
        second.refresh_from_db()
        assert (first.status, second.reason) == ("pending", "cancelled")
        time.tick(3 * 3600)
        run_jobs(["publisher"])
    first.refresh_from_db()
    assert first.status == "completed" and len(standin.posts["page"]) == 1


@pytest.mark.django_db
def test_a_row_whose_job_is_gone_gets_a_new_one_under_its_id(
    accounts: dict[str, Account], standin: Standin
) -> None:
    row = services.schedule(accounts["meta_facebook"], factories.post("meta_facebook"), AT).row
    verbs.cancel(row.pk, by="tests", reason="a pause")
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobs_deadletter WHERE job_id = %s", [row.pk])
    jobs.Job.objects.filter(pk=row.pk).delete()
    verbs.replay(row.pk, by="tests", reason="no pause")
    assert jobs.Job.objects.filter(pk=row.pk).exists()
    run_jobs(["publisher"])
    row.refresh_from_db()
    assert row.status == "completed" and len(standin.posts["page"]) == 1


@pytest.mark.django_db
def test_a_post_in_doubt_is_settled_by_a_person(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave("POST /page/videos", "drop")
    row = publish(accounts["meta_facebook"], 600, media=[factories.VIDEO], caption="")
    assert (row.status, row.reason) == ("failed", "in_doubt")
    verbs.replay(row.pk, by="tests", reason="look again")
    run_for(600)
    row.refresh_from_db()
    assert (row.status, row.reason) == ("failed", "in_doubt")
    assert len(standin.posts["page"]) == 1
    verbs.settle(row.pk, "appeared", by="tests", reason="it is there", remote_id="page_1")
    run_for(600)
    row.refresh_from_db()
    assert (row.status, row.remote_id) == ("completed", "page_1")
    assert len(standin.posts["page"]) == 1


# ---- time


@pytest.mark.django_db
def test_a_post_that_is_too_late_does_not_appear(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave("POST /page/feed", "429")
    with freeze_clock() as time:
        row = services.enqueue(
            accounts["meta_facebook"], factories.post("meta_facebook"),
            publish_until=clock.now() + timedelta(seconds=90),
        ).row  # fmt: skip
        run_jobs(["publisher"])
        time.tick(200)
        run_jobs(["publisher"])
    row.refresh_from_db()
    assert (row.status, row.reason) == ("failed", "expired")
    assert not standin.posts["page"]


@pytest.mark.django_db
def test_a_post_whose_time_passes_after_it_was_sent_ends_completed(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave("POST /page/feed", "drop")
    with freeze_clock() as time:
        row = services.enqueue(
            accounts["meta_facebook"], factories.post("meta_facebook"),
            publish_until=clock.now() + timedelta(seconds=30),
        ).row  # fmt: skip
        run_jobs(["publisher"])
        time.tick(600)
        run_jobs(["publisher"])
    row.refresh_from_db()
    assert row.status == "completed" and len(standin.posts["page"]) == 1


@pytest.mark.django_db
def test_a_caption_of_completed_spoils_no_result(
    accounts: dict[str, Account], standin: Standin
) -> None:
    row = publish(accounts["meta_facebook"], caption="completed")
    assert row.status == "completed"
    assert jobs.get(row.pk).result == {"remote_id": row.remote_id, "status": "completed"}


@pytest.mark.django_db
def test_a_publication_keeps_its_account(accounts: dict[str, Account]) -> None:
    services.enqueue(accounts["meta_facebook"], factories.post("meta_facebook"))
    with pytest.raises(ProtectedError):
        accounts["meta_facebook"].delete()


# ---- the first comment


@pytest.mark.django_db
def test_a_first_comment_that_exists_is_not_written_again(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """Prima di pubblicare il commento, il connettore verifica se esiste già un commento identico
    interrogando `/comments` e confrontando gli hash per evitare duplicazioni."""
    post = factories.post("meta_instagram", ig_first_comment="Order NOW")
    row = services.enqueue(accounts["meta_instagram"], post).row
    # The next id after that of the container is the post's; its last page has the comment.
    media = "17000002"
    standin.comments[media] = [{"id": str(n), "text": f"nice {n}"} for n in range(4)]
    standin.comments[media].append({"id": "99", "text": "order <b>now</b> "})
    run_for(60)
    row.refresh_from_db()
    [child] = Publication.objects.filter(parent=row)
    assert (row.remote_id, child.status, child.remote_id) == (media, "completed", "")
    assert len(standin.comments[media]) == 5


@pytest.mark.django_db
def test_a_lost_comment_leaves_the_post_alone_and_is_reported(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """Gli errori nella creazione del job figlio non invalidano la pubblicazione principale ma
    vengono segnalati tramite l'hook `fp_publisher_ig_first_comment_error`."""
    told: list[dict[str, Any]] = []

    def hear(sender: Any, **given: Any) -> None:
        told.append(given)

    signals.ig_first_comment_error.connect(hear)
    standin.misbehave("/comments", "none", "none", "403")
    try:
        row = publish(accounts["meta_instagram"], 600, ig_first_comment="Order now")
    finally:
        signals.ig_first_comment_error.disconnect(hear)
    [child] = Publication.objects.filter(parent=row)
    assert (row.status, child.status, child.reason) == ("completed", "failed", "permanent")
    [one] = told
    assert (one["job_id"], one["message"]) == (row.pk, child.error)


def test_there_is_a_kind_for_every_channel() -> None:
    assert set(PAYLOADS) == set(Channel.values)
    assert {p.kind for p in PAYLOADS.values()} == {f"publisher.{c}" for c in Channel.values}


# ---- each sentence that is left


@pytest.mark.django_db
def test_a_job_is_a_row_with_its_state_attempts_key_and_parent(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """Tutti i job sono persistiti … con metadati per stato, tentativi, chiavi di idempotenza e
    relazioni padre/figlio.
    """
    parent = publish(accounts["meta_instagram"], 120, ig_first_comment="Order now")
    [child] = Publication.objects.filter(parent=parent)
    assert (child.status, child.attempts, len(child.key)) == ("completed", 1, 64)
    assert jobs.Job.objects.filter(pk__in=[parent.pk, child.pk]).count() == 2


@pytest.mark.django_db
def test_a_claimed_job_is_running_and_its_attempt_is_counted(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """`running`: Job preso in carico dal worker e in corso di elaborazione. Il worker emette
    l'azione `fp_publisher_process_job` per ogni job preso in carico.
    """
    seen: list[tuple[str, int]] = []

    def look(sender: str, job: signals.ClaimedJob, **_: Any) -> None:
        row = Publication.objects.get(pk=job.id)
        seen.append((row.status, row.attempts))

    signals.process_job.connect(look)
    try:
        for channel in Channel.values:
            publish(accounts[channel])
    finally:
        signals.process_job.disconnect(look)
    # Who polls is claimed once more for every look, which is no attempt.
    assert set(seen) == {("running", 1)} and len(seen) >= len(Channel.values)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "other",
    [
        {"caption": "Hello {{name}}", "placeholders": {"name": "Ada"}},
        {"caption": "Hello {{name}}", "placeholders": {"name": "Eva"},
         "media": [{"url": "https://media.acme.test/a.jpg", "checksum": "sha256:1"}]},
        {"caption": "Hello  {{name}}", "placeholders": {"name": "Eva"}},
    ],
)  # fmt: skip
def test_media_text_and_placeholders_make_the_key(
    other: dict[str, Any], accounts: dict[str, Account]
) -> None:
    """`media_hash` deriva da checksum/reference degli asset … `caption_hash` deriva dal corpo del
    template … e dai placeholder effettivamente passati al connettore.
    """
    account = accounts["meta_facebook"]
    given = {"caption": "Hello {{name}}", "placeholders": {"name": "Eva", "unused": "x"}}
    first = services.schedule(account, Content.model_validate(given), AT)
    given["placeholders"] = {"name": "Eva"}  # one that is not used changes nothing
    assert not services.schedule(account, Content.model_validate(given), AT).is_new
    made = services.schedule(account, Content.model_validate(other), AT)
    assert made.is_new and made.row.key != first.row.key


@pytest.mark.django_db
def test_without_a_plan_the_key_is_the_callers_or_a_uuid(accounts: dict[str, Account]) -> None:
    """… è possibile passare manualmente `idempotency_key`; in assenza di valore viene generato un
    UUID come fallback.
    """
    account, post = accounts["meta_facebook"], factories.post("meta_facebook")
    assert services.enqueue(account, post, idempotency_key=" mine ").row.key == "mine"
    made = {services.enqueue(account, post).row.key for _ in range(2)}
    assert len(made) == 2 and all(uuid.UUID(key).version == 4 for key in made)


@pytest.mark.django_db
def test_a_published_job_is_returned_as_it_is(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """Se la pubblicazione precedente ha già restituito un `remote_id`, l'API di enqueue restituisce
    immediatamente il job esistente preservando lo stato.
    """
    account, post = accounts["meta_facebook"], factories.post("meta_facebook")
    with freeze_clock() as time:
        at = clock.now() + timedelta(minutes=1)
        services.schedule(account, post, at)
        time.tick(61)
        run_jobs(["publisher"])
        row = Publication.objects.get()
        calls = len(standin.calls)
        again = services.enqueue(account, post, idempotency_key=row.key)
        assert (again.is_new, again.row.status, again.row.remote_id) == (
            False, "completed", row.remote_id,
        )  # fmt: skip
        run_jobs(["publisher"])
    assert len(standin.calls) == calls


@pytest.mark.django_db
@pytest.mark.parametrize("channel", Channel.values)
def test_a_preview_calls_nobody(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    """I payload con flag `preview` devono evitare chiamate ai provider esterni e restituire un
    array normalizzato con le informazioni essenziali per le UI.
    """
    found = services.preview(channel, factories.post(channel))
    assert found["channel"] == channel and len(found) > 2
    assert not standin.calls and not Publication.objects.exists()


@pytest.mark.django_db
def test_the_key_of_a_first_comment_is_that_of_post_and_message(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """… generano un job figlio `type=ig_first_comment` con idempotency key basata su media ID e
    hash del messaggio.
    """
    row = publish(accounts["meta_instagram"], 120, ig_first_comment="Order  <b>NOW</b>")
    [child] = Publication.objects.filter(parent=row)
    assert child.type == "ig_first_comment"
    assert child.key == keys.comment_key(row.remote_id, "order now")


# ---- secrets


@pytest.mark.django_db
def test_tokens_and_addresses_of_uploads_are_stored_nowhere_in_clear(
    brand: Brand, standin: Standin
) -> None:
    """Everything in the database is read, in the middle of an upload and after a refusal."""
    made = factories.accounts(brand, standin.url)
    for account in made.values():
        account.token, account.refresh_token = "canary-4711", "canary-4712"
        account.save()
    standin.refreshes = {"canary-4712": ""}
    standin.misbehave("PUT /session/17000001", "500")
    standin.expired.add("canary-4711")
    for channel in ("meta_facebook", "youtube"):
        services.enqueue(made[channel], factories.post(channel))
    run_jobs(["publisher"])
    assert Publication.objects.get(channel="youtube").handle["session"]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition "
            "AND relnamespace = 'public'::regnamespace"
        )
        tables = [name for (name,) in cursor.fetchall()]
        assert "publisher_account" in tables and "jobs_effect" in tables
        for table in tables:
            cursor.execute(f'SELECT t::text FROM "{table}" t')  # noqa: S608
            text = " ".join(row for (row,) in cursor.fetchall())
            for secret in ("canary-47", "youtube/session/"):
                assert secret not in text, table
