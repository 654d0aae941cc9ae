"""Faults of a table: the rule, the column, the row and the value."""


class BadTable(ValueError):
    """A table breaks a rule of its contract; nothing of it is taken.

    Attributes
    ----------
    reason : str
        The rule that is broken.
    argument : str or None
        Name of the column that breaks it; None when the fault is not one column's.
    row : int or None
        Row of the table, from 0; None when the fault is not one row's.
    value : str or None
        What stands there.
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

    def __str__(self) -> str:
        received = "" if self.value is None else f", got {self.value}"
        place = "" if self.row is None else f" in row {self.row} (rows count from 0)"
        return f"{self.reason}{received}{place}"
