"""Commands on labels and those who give them."""
