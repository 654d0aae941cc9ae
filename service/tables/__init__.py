"""Tables in and out: formats, decoded sizes, and uploads."""
