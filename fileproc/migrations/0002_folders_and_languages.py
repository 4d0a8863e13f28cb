import uuid

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
from django.db import migrations, models

import fileproc.clock
import fileproc.languages


class Migration(migrations.Migration):
    dependencies = [("fileproc", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Folder",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("owner", models.TextField()),
                ("name", models.TextField()),
                ("created_at", models.DateTimeField(db_default=fileproc.clock.Now())),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="children",
                        to="fileproc.folder",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "parent", "name"), name="fileproc_folder_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("parent", None)),
                        fields=("owner", "name"),
                        name="fileproc_folder_top",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="file",
            name="folder",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="files",
                to="fileproc.folder",
            ),
        ),
        migrations.AddField(
            model_name="batch",
            name="chunk_tokens",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="batch",
            name="chunk_overlap",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="batch",
            name="language",
            field=models.CharField(default="en", max_length=10),
        ),
        migrations.RemoveIndex(model_name="chunk", name="fileproc_chunk_words"),
        migrations.RemoveField(model_name="chunk", name="words"),
        migrations.AddField(
            model_name="chunk",
            name="language",
            field=fileproc.languages.ConfigurationField(default="english"),
        ),
        migrations.AddField(
            model_name="chunk",
            name="words",
            field=models.GeneratedField(
                db_persist=True,
                expression=django.contrib.postgres.search.SearchVector(
                    "text", config=models.F("language")
                ),
                output_field=django.contrib.postgres.search.SearchVectorField(),
            ),
        ),
        migrations.AddIndex(
            model_name="chunk",
            index=django.contrib.postgres.indexes.GinIndex(
                fields=["words"], name="fileproc_chunk_words"
            ),
        ),
    ]
