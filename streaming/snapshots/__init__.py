"""Snapshots for readers and checkpoints to resume from, as a stream leaves them on disk."""
