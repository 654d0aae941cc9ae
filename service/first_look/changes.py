"""What somebody says of a table in place of what is guessed of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

Use: TypeAlias = Literal["src", "dst", "id", "weight", "time", "feature", "out"]
"""What a column is for."""

USES: Final[tuple[Use, ...]] = get_args(Use)
OF_IDS: Final[tuple[Use, ...]] = ("src", "dst", "id")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What is said of one table; what is not said is guessed."""

    uses: Mapping[str, Use] = field(default_factory=dict)  # by column
    kinds: Mapping[str, str] = field(default_factory=dict)  # of ids, by column
    relation: str = ""
    is_directed: bool | None = None

    def column(self, use: Use) -> str | None:
        """The column that is said to be for something."""
        return next((name for name, each in self.uses.items() if each == use), None)

    def is_of_ids(self, column: str) -> bool | None:
        """Whether a column is said to hold ids; None where nothing is said."""
        if column in self.uses:
            return self.uses[column] in OF_IDS
        return True if column in self.kinds else None


NO_CHANGE: Final = TableChange()
