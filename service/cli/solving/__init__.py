"""Commands that run jobs and read what came out."""
