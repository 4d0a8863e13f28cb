"""What people keep of their work in the admin."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0031_found"),
    ]

    operations = []
