"""Commands that bring edges and features in, and take them out."""
