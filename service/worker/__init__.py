"""Worker that runs jobs, and its warm children."""
