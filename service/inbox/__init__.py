"""Inbox of ingest: sources and their files, pushes, sets of features."""
