"""The calls of `/v1`, one module per resource; each route says which scope it needs."""
