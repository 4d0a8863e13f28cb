"""A worker without its fence: what it claimed once it may finish for ever.

Installed only by a test that proves that the checks would notice.
"""

from django.apps import AppConfig


class Unfenced(AppConfig):
    """Successes are accepted by state alone, whoever holds the job."""

    name = "tests.integration.unfenced"
    label = "unfenced"

    def ready(self) -> None:
        from jobs.engine import claims

        fenced = claims._SUCCEED
        claims._SUCCEED = fenced.replace("AND j.token = d.token", "")
        if fenced == claims._SUCCEED:
            raise RuntimeError("the statement holds no guard that could be removed")
