"""Linear machines and ridge regression on features."""
