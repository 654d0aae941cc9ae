"""Edges on their way in: sources, parts of files, blocks, and the spool for later passes."""
