"""External ids of nodes and their dense numbers."""
