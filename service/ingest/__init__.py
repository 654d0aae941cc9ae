"""Ingest of edges and features into one graph, and the daemon that watches all graphs."""
