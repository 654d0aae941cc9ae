"""Tables in and out: formats, what a table will take once decoded, and reading what was sent."""
