"""k-NN edges from features: nearest neighbors of rows on the disk."""
