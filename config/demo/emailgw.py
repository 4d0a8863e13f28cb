"""The gateway in the demo: a real SMTP server on loopback, and emails that meet its moods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.test.utils import override_settings

import jobs
from config.standins.emailgw.smtp import Mailbox
from emailgw import services
from emailgw.config import EMAIL_JOB_CONFIG
from emailgw.models import Company, OutboxEmail, Status
from jobs import demo


class EmailAct(demo.Act):
    """One email of the demo's company, and how it is to end."""

    queues = (EMAIL_JOB_CONFIG.QUEUE_NAME,)
    to: ClassVar[str]
    wanted: ClassVar[tuple[str, bool, int]]
    """Its status, whether it is in doubt, and how often the server has taken it."""
    _box: ClassVar[Mailbox | None] = None
    _setting: ClassVar[override_settings]

    def prepare(self) -> Mapping[str, str]:
        if EmailAct._box is not None:
            return {}
        EmailAct._box = Mailbox()
        # Of these programs only: no mail of the demo leaves this machine, whatever is set up.
        server = {"host": "127.0.0.1", "port": EmailAct._box.start()}
        # Emails are accepted here, in a process that has read its environment already.
        EmailAct._setting = override_settings(EMAILGW={"PROVIDERS": {"smtp": {"OPTIONS": server}}})
        EmailAct._setting.enable()
        url = f"smtp://{server['host']}:{server['port']}"
        return {"SMTP_URL": url, "EMAIL_PROVIDER": "smtp"}

    def begin(self) -> None:
        company, _ = Company.objects.get_or_create(
            name="Demo", provider="smtp",
            defaults={"default_from": "shop@demo.test", "from_domains": ["demo.test"]},
        )  # fmt: skip
        asked = {
            "to": f"{self.to}-{self.mark}@customers.test",
            "subject": "Your order",
            "html": "<h1>Thank you!</h1><p>It is <b>on its way</b>.</p>",
        }
        self.ids = [services.accept(company, asked, by="demo").outbox_id]

    def verdict(self) -> demo.Verdict:
        row = OutboxEmail.objects.get(pk=self.ids[0])
        box = self._box
        taken = box.taken[f"<{row.pk}@demo.test>"] if box is not None else 0
        found = (str(row.status), row.in_doubt, taken)
        times = f"taken {taken} times".replace("0 times", "by nobody").replace("1 times", "once")
        words = f"{row.attempts} attempt{'' if row.attempts == 1 else 's'}, {times}"
        return found == self.wanted, f"{row.status}{' (in doubt)' if row.in_doubt else ''}", words

    def leave(self) -> None:
        if EmailAct._box is not None:
            EmailAct._box.stop()
            EmailAct._setting.disable()
            EmailAct._box = None


@demo.shown
class AnEmail(EmailAct):
    title = "an email"
    to = "ana"
    wanted = (Status.SENT, False, 1)


@demo.shown
class ABusyServer(EmailAct):
    title = "an email to a busy server"
    to = "busy"
    wanted = (Status.SENT, False, 1)


@demo.shown
class ABounce(EmailAct):
    title = "an email to nobody"
    to = "gone"
    wanted = (Status.FAILED, False, 0)


@demo.shown
class ASilence(EmailAct):
    title = "an email without an answer"
    to = "silent"
    wanted = (Status.SENT_ATTEMPT, True, 1)
    _is_told = False

    def step(self) -> str:
        [job] = self.jobs()
        if job.state != jobs.JobState.FAILED or self._is_told:
            return ""
        self._is_told = True
        return f"email {job.pk} may have been sent: a person decides"
