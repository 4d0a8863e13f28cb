"""Django settings. Everything that differs between installations is an environment variable."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from config import environment, workers
from config.embedded import data_folder

BASE_DIR = Path(__file__).resolve().parent.parent

DATABASE, REDIS_URL = environment.servers(sys.argv)
EMBEDDED = not os.environ.get("DATABASE_URL")

DEBUG = environment.flag("DEBUG", default=EMBEDDED)
SECRET_KEY = environment.secret_key(data_folder(), required=not DEBUG and not EMBEDDED)
ALLOWED_HOSTS = environment.words("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = environment.words("CSRF_TRUSTED_ORIGINS", [])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "jobs.apps.JobsConfig",
    "config.examples.apps.ExamplesConfig",
]

MIDDLEWARE = [
    "jobs.middleware.RequestMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "config.security.ContentSecurityPolicy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "config.security.in_one_thread",  # the last one
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "config" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
ASGI_APPLICATION = "config.asgi.application"

DATABASES: dict[str, dict[str, Any]] = {"default": DATABASE.as_django()}
DATABASES["default"]["OPTIONS"].setdefault("application_name", "jobdesk")
DATABASES["default"]["OPTIONS"].update(environment.pool(sys.argv))
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DATABASES["default"]["TEST"] = {"NAME": "test_jobdesk"}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

RQ_QUEUES = {"default": {"URL": REDIS_URL}}
CACHES = {
    "default": {
        "BACKEND": "jobs.cache.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "jobdesk",
    }
}

# No pooler stands between the project and its own server.
JOBS: dict[str, Any] = {
    "PREPARE": EMBEDDED,
    "BLOBS": environment.blobs(data_folder()),
    **environment.jobs_settings(),
    **environment.protection_keys(data_folder(), make_up=DEBUG or EMBEDDED),
}

EMAILGW: dict[str, Any] = environment.email("anymail", data_folder() if DEBUG else None)
if EMAILGW:  # the extra is installed
    INSTALLED_APPS += ["anymail", "emailgw.apps.EmailgwConfig"]

FILEPROC: dict[str, Any] | None = environment.documents("pypdfium2", "lxml", "python_calamine")
if FILEPROC is not None:  # the extra is installed
    INSTALLED_APPS += ["fileproc.apps.FileprocConfig"]
PUBLISHER: dict[str, Any] = environment.publisher()
if find_spec("cryptography") is not None:  # the extra is installed
    INSTALLED_APPS += ["publisher.apps.PublisherConfig"]
    JOBS["SCOPE"] = [*JOBS.get("SCOPE", []), "publisher.access.scope"]
TRADING: dict[str, Any] = environment.trading()
if TRADING:  # the extra is installed
    INSTALLED_APPS += ["trading.apps.TradingConfig"]
    JOBS["SCOPE"] = [*JOBS.get("SCOPE", []), "trading.permissions.scope"]
OPERATIONS: dict[str, Any] = environment.operations("cryptography")
if OPERATIONS:  # the extra is installed
    INSTALLED_APPS += ["operations.apps.OperationsConfig"]
    JOBS["SCOPE"] = [*JOBS.get("SCOPE", []), "operations.access.scope"]
    if DEBUG or OPERATIONS["ERP_URL"]:
        JOBS["WORKERS"] = workers.OF_OPERATIONS

LOG_FORMAT = environment.choice("LOG_FORMAT", ("console", "json"))
LOG_LEVEL = environment.log_level()
# Libraries that log every request at INFO.
QUIET = ("httpx", "httpcore", "rq", "urllib3", "botocore", "boto3", "websockets")
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "console": {"()": "jobs.logs.ConsoleFormatter"},
        "json": {"()": "jobs.logs.JsonFormatter"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        # Without its console handler, which would repeat every line with DEBUG.
        "django": {"handlers": [], "level": environment.at_least(LOG_LEVEL, "INFO")},
        **{name: {"level": environment.at_least(LOG_LEVEL, "WARNING")} for name in QUIET},
        # No line for each response below 500.
        "django.request": {"level": environment.at_least(LOG_LEVEL, "ERROR")},
    },
}

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("it", "Italiano"), ("pt-br", "Português (Brasil)")]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "build" / "static"

LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

SESSION_COOKIE_HTTPONLY = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if not DEBUG:
    # HTTPS=off is for a server behind nothing at all, in a closed network.
    HTTPS = environment.flag("HTTPS", default=True)
    SECURE_SSL_REDIRECT = HTTPS
    SESSION_COOKIE_SECURE = HTTPS
    CSRF_COOKIE_SECURE = HTTPS
    SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
    SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
    SECURE_HSTS_PRELOAD = False
    if environment.flag("TRUST_FORWARDED_PROTO", default=False):
        SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
