from django.apps import AppConfig


class ExamplesConfig(AppConfig):
    name = "config.examples"
    label = "examples"
