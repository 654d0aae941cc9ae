"""The pages, one module for each thing that people look at."""
