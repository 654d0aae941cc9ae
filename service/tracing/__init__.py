"""Traces: which request led to which job, and where both spent their time.

Context: who runs several services wants one trace through all of them. Decision: OpenTelemetry,
its variables and its exporter, as an extra; spans by hand in the few places that matter, no
instrumentation of libraries. Consequence: it is off, and nothing of it is loaded, until a collector
is named; `peewit.service.tracing.otlp` alone imports the SDK.

Spans hold ids, kinds, names of models, routes and numbers: no name of a node, label, graph or file,
no address and no text of an error, which may hold them.
"""
