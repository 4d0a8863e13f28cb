"""Topics of webhooks are matched as they are, and are compiled to no regular expression."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("jobs", "0034_stock_plans")]

    operations = [migrations.RemoveField(model_name="webhook", name="expression")]
