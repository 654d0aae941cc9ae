"""Commands on graphs and what they hold."""
