"""Total variation on graphs: its proximal step, Cheeger ratios, and splittings with both."""
