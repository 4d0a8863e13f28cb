"""Seeing recipients in clear is a permission of its own."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("emailgw", "0001_initial")]

    operations = [
        migrations.AlterModelOptions(
            name="recipient",
            options={
                "permissions": [("reveal_recipient", "Can see recipients in clear")],
                "verbose_name": "recipient",
                "verbose_name_plural": "recipients",
            },
        ),
    ]
