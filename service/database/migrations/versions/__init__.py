"""One file for each step of the schema, named by its number."""
