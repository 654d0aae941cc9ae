"""Total variation and Cheeger models."""
