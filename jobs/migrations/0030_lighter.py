"""Less work for each change of a job."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0029_queues"),
    ]

    operations = []
