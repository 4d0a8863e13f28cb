"""Indexes by which rows are found again."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0030_lighter"),
    ]

    operations = []
