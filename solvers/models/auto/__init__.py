"""The default model: its arms and how they are weighed."""
