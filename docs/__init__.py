"""Pages for readers, and the programs whose figures they show."""
