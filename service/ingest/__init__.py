"""Who brings edges and features in: the ingest of one graph, and the daemon that watches all."""
