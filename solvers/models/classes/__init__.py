"""Classes: their balance, their shares, and scores between them."""
