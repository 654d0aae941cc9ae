"""The calls of the API, one module per resource, each said once for both clients."""
