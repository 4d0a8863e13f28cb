import os

from django.core.wsgi import get_wsgi_application

from jobs.bodies import bounded

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

application = bounded(get_wsgi_application())
