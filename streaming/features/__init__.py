"""Features of nodes: checked blocks, files, and versions aligned with the nodes."""
