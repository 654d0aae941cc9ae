"""Spans of OpenTelemetry, sent by OTLP over HTTP, as the variables ``OTEL_*`` say."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
_PREFIX: Final = "peewit."
_WIRE: Final = TraceContextTextMapPropagator()


class Tracing:
    """Makes spans and sends them in batches, in a thread of its own; ``role`` is the process's.

    Raises a ValueError where another protocol is asked for or a variable cannot be read.
    """

    def __init__(self, role: str) -> None:
        protocol = next(
            (os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), _PROTOCOL
        )
        if protocol != _PROTOCOL:
            raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL must be {_PROTOCOL}, got {protocol!r}")
        provider = TracerProvider(resource=_resource(role))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)  # for libraries that make spans, such as that of agents
        self._tracer = provider.get_tracer("peewit", version("peewit"))

    def place(self) -> Context:
        """The present span, as the parent of spans begun elsewhere."""
        return trace.set_span_in_context(trace.get_current_span())

    def traceparent(self) -> str | None:
        """See `peewit.service.tracing.spans.traceparent`."""
        carrier: dict[str, str] = {}
        _WIRE.inject(carrier)
        return carrier.get("traceparent")

    def trace_id(self) -> str | None:
        """Id of the present trace in hexadecimal digits."""
        context = trace.get_current_span().get_span_context()
        return trace.format_trace_id(context.trace_id) if context.is_valid else None

    def begin(self, name: str, place: Context | None) -> Span:
        """A span below a place; the caller ends it."""
        return self._tracer.start_span(name, context=place)

    def note(self, name: str, began: datetime, ended: datetime) -> None:
        """See `peewit.service.tracing.spans.note_span`."""
        self._tracer.start_span(name, start_time=_nanoseconds(began)).end(_nanoseconds(ended))

    @contextmanager
    def span(
        self,
        name: str,
        *,
        parent: str | None,
        since: datetime | None,
        attributes: Mapping[str, str | int],
    ) -> Iterator["OpenSpan"]:
        """See `peewit.service.tracing.spans.span`."""
        with self._tracer.start_as_current_span(
            name,
            context=None if parent is None else _place_of({"traceparent": parent}),
            start_time=None if since is None else _nanoseconds(since),
            record_exception=False,  # its text may hold labels and addresses
            set_status_on_exception=False,
        ) as span:
            opened = OpenSpan(span)
            opened.set(**attributes)
            try:
                yield opened
            except BaseException as error:
                opened.fail(type(error).__name__)
                raise

    @contextmanager
    def request(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> Iterator["OpenSpan"]:
        """A span of a request, below the one that its ``traceparent`` names."""
        carrier = {
            name.decode(): value.decode("latin-1")
            for name, value in headers
            if name in {b"traceparent", b"tracestate"}
        }
        with self._tracer.start_as_current_span(
            method,
            context=_place_of(carrier),
            kind=SpanKind.SERVER,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield OpenSpan(span)


class OpenSpan:
    """A span that has not ended."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def set(self, **attributes: str | int | None) -> None:
        """Set attributes below ``peewit.``; the first ``_`` of a name becomes ``.``."""
        for name, value in attributes.items():
            if value is not None:
                self._span.set_attribute(_PREFIX + name.replace("_", ".", 1), value)

    def fail(self, kind: str) -> None:
        """Mark the span as failed, with the kind of the error alone."""
        self._span.set_attribute("error.type", kind)
        self._span.set_status(Status(StatusCode.ERROR))

    def answered(self, method: str, route: str, status: int | None) -> None:
        """Name the span of a request after its route, which is known only at its end."""
        self._span.update_name(f"{method} {route}")
        self._span.set_attribute("http.request.method", method)
        self._span.set_attribute("http.route", route)
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if status is None or status >= 500:
            self.fail(str(status or "cut off"))


def _resource(role: str) -> Resource:
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    attributes: dict[str, Any] = {"service.version": version("peewit"), "peewit.role": role}
    return Resource.create(attributes if named else {SERVICE_NAME: "peewit", **attributes})


def _place_of(carrier: Mapping[str, str]) -> Context:
    """The place that headers name; a new trace where they name none."""
    return _WIRE.extract(carrier, context=Context())


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1e6) * 1000
