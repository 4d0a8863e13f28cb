"""Old emails are found by when they ended; a decision about a doubt is kept with the doubt."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("emailgw", "0002_reveal")]

    operations = [
        migrations.RemoveField(model_name="outboxemail", name="may_repeat"),
        migrations.AddIndex(
            model_name="outboxemail",
            index=models.Index(
                fields=["processed_at", "id"],
                condition=models.Q(processed_at__isnull=False),
                name="emailgw_outbox_ended",
            ),
        ),
    ]
