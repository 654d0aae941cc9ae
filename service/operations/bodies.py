"""Base of bodies that are read as they are written."""

from pydantic import BaseModel, ConfigDict


class Body(BaseModel):
    """A body: what it does not know it refuses, and "1" is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
