"""What came out of solves: files of predictions, reading them, and what is made of them."""
