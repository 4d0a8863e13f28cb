"""The numbers that apps count, summed over all processes."""

from django.db import models
from django.db.models import Value

from jobs.models.arrays import ArrayField
from jobs.models.clock import Clock


class Metric(models.Model):
    """One series of an app's metric: what was counted for these values of its labels.

    Counters and histograms have one row, which counts since it was made. A gauge has a row for each
    process that sets it, which counts as long as that is heard of.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.TextField()
    labels = ArrayField(models.TextField(), default=list)
    bounds = ArrayField(
        models.FloatField(),
        default=list,
        db_default=Value([], ArrayField(models.FloatField())),
    )
    process = models.TextField(default="", db_default="")
    value = models.FloatField(default=0.0, db_default=0.0)
    buckets = ArrayField(
        models.BigIntegerField(),
        default=list,
        db_default=Value([], ArrayField(models.BigIntegerField())),
    )
    seen_at = models.DateTimeField(db_default=Clock())

    class Meta:
        db_table = "jobs_metric"
        ordering = ["name", "id"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["name", "labels", "bounds", "process"], name="jobs_metric_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name}{{{', '.join(self.labels)}}}"
