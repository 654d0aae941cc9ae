"""How to install optional dependencies."""


def how_to_install(extra: str) -> str:
    """The commands that install an extra of ``pyproject.toml``, for the end of a message."""
    return (
        f"install it with `pip install 'peewit[{extra}]'`, or in a checkout with "
        f"`.venv/bin/pip install -c constraints.txt -e '.[{extra}]'`"
    )
