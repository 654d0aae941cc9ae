"""Schemas of JSON bodies, in and out; pydantic ends here."""
