"""What a solve does, from its options to its answer."""
