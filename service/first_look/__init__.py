"""A first look at somebody's tables: what they hold, and the commands that they call for."""
