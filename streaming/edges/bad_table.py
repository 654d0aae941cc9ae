"""Faults of a table: the rule, the column, the row and the value."""

from typing import Final

from peewit.streaming.problems import Unprocessable

_MAX_SHOWN: Final = 80


class BadTable(Unprocessable):
    """A table breaks a rule of its contract; nothing of it is taken.

    ``argument``, the column, and ``row``, from 0, are None where the fault is not of a single one.
    """

    def __init__(
        self,
        reason: str,
        *,
        argument: str | None = None,
        row: int | None = None,
        value: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.argument = argument
        self.row = row
        self.value = value

    @property
    def problem_members(self) -> dict[str, str | int | None]:
        """What errors of the API and of commands say beside the text."""
        return {
            "argument": self.argument,
            "rule": self.reason,
            "row": self.row,
            "value": self.value,
        }

    def __str__(self) -> str:
        received = "" if self.value is None else f", got {self.value}"
        place = "" if self.row is None else f" in row {self.row} (rows count from 0)"
        return f"{self.reason}{received}{place}"


class BadUpload(BadTable):
    """What came cannot be read as the table it should be; nothing of it is taken."""

    title = "Invalid content"

    def __init__(
        self,
        reason: str,
        *,
        argument: str | None = None,
        row: int | None = None,
        value: object = None,
    ) -> None:
        text = None if value is None else excerpt(value) or "''"
        super().__init__(reason, argument=argument, row=row, value=text)


def excerpt(value: object, limit: int = _MAX_SHOWN) -> str:
    """A value from outside, cut to a length that errors can hold."""
    text = str(value)
    return text if len(text) <= limit else text[:limit] + "..."
