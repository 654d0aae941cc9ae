"""What JSON bodies look like, in and out; pydantic ends here."""
