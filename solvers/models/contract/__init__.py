"""What models are: what they take, prepare and answer."""
