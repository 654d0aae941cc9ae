"""Ingest on a dask.distributed cluster."""
