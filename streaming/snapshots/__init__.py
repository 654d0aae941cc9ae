"""What a stream leaves on the disk: snapshots for readers, checkpoints to resume from."""
