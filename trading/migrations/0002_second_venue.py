from django.db import migrations, models

import jobs.fields


class Migration(migrations.Migration):
    dependencies = [
        ("trading", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="brokerconnection",
            name="access_token",
            field=jobs.fields.EncryptedTextField(null=True, tenant_field="user"),
        ),
        migrations.AddField(
            model_name="brokerconnection",
            name="expires_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="brokerconnection",
            name="refresh_token",
            field=jobs.fields.EncryptedTextField(null=True, tenant_field="user"),
        ),
        migrations.AddField(
            model_name="brokerconnection",
            name="scope",
            field=models.CharField(blank=True, default="", max_length=500),
        ),
        migrations.AddField(
            model_name="brokerconnection",
            name="symbols",
            field=models.JSONField(blank=True, default=list, verbose_name="markets"),
        ),
        migrations.AlterField(
            model_name="brokerconnection",
            name="broker",
            field=models.CharField(
                choices=[("coinbase", "Coinbase"), ("binance", "Binance")],
                max_length=20,
                verbose_name="venue",
            ),
        ),
        migrations.AlterField(
            model_name="trade",
            name="broker",
            field=models.CharField(
                choices=[("coinbase", "Coinbase"), ("binance", "Binance")],
                max_length=20,
                verbose_name="venue",
            ),
        ),
    ]
