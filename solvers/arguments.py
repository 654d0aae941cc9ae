"""Errors that say which argument they speak of, for callers that pass it on."""


class BadArgument(ValueError):
    """An argument breaks its rule; reads ``<argument> <rule>``.

    Attributes
    ----------
    argument : str
        Its name.
    """

    def __init__(self, argument: str, rule: str) -> None:
        super().__init__(argument, rule)
        self.argument = argument

    def __str__(self) -> str:
        return " ".join(self.args)


class BadArgumentType(BadArgument, TypeError):
    """An argument is of another kind than its rule asks for."""


def require_one_of(name: str, value: str, names: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` is one of ``names``."""
    if value not in names:
        raise BadArgument(name, f"must be one of {', '.join(names)}, got {value!r}")
