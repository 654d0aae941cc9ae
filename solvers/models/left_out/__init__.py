"""Labels left out of a solve, to judge it by."""
