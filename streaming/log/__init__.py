"""The log of raw edges and deletes, for graphs whose deletes are exact."""
