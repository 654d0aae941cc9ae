"""All that waits for ingest: sources and their files, pushes, sets of features."""
