"""Writes every span of the process it is installed in to the file that FLEET_SPANS names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from django.apps import AppConfig
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult


class Spans(AppConfig):
    name = "tests.emailgw.spans"
    label = "spans"
    path = str(Path(__file__).parent)

    def ready(self) -> None:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(ToFile()))
        trace.set_tracer_provider(provider)


class ToFile(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with Path(os.environ["FLEET_SPANS"]).open("a") as file:
            file.writelines(f"{span.to_json(indent=None)}\n" for span in spans)
        return SpanExportResult.SUCCESS
