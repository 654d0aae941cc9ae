"""How to install what Peewit can do without."""


def how_to_install(extra: str) -> str:
    """The commands that install an extra of ``pyproject.toml``, for the end of a message."""
    return (
        f"install it with `pip install 'peewit[{extra}]'`, or in a checkout with "
        f"`.venv/bin/pip install -c constraints.txt -e '.[{extra}]'`"
    )
