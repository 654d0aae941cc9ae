"""Models: what predicts labels of all nodes from those of a few, each in a module of its own."""
