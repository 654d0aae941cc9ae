"""Comma-separated text: how it is laid out, quoted and read, and which lines are no rows."""
