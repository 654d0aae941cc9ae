"""Errors that name the argument they are about, for callers that pass it on."""


class BadArgument(ValueError):
    """An argument breaks its rule; reads ``<argument> <rule>``, with the name in ``argument``."""

    def __init__(self, argument: str, rule: str) -> None:
        super().__init__(argument, rule)
        self.argument = argument

    def __str__(self) -> str:
        return " ".join(self.args)


class BadArgumentType(BadArgument, TypeError):
    """An argument has a type that its rule does not allow."""


def require_one_of(name: str, value: str, names: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` is one of ``names``."""
    if value not in names:
        raise BadArgument(name, f"must be one of {', '.join(names)}, got {value!r}")
