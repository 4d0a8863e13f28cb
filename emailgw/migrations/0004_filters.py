"""Emails of all companies are listed newest first, and those of one found by its own ids."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("emailgw", "0003_retention")]

    operations = [
        migrations.AddIndex(
            model_name="outboxemail",
            index=models.Index(fields=["-enqueued_at", "id"], name="emailgw_outbox_newest_all"),
        ),
        migrations.AddIndex(
            model_name="outboxemail",
            index=models.Index(
                fields=["company", "external_id"],
                condition=~models.Q(external_id=""),
                name="emailgw_outbox_external_id",
            ),
        ),
    ]
