"""A home of its own for a demo or a trial, which leads nothing of the user's in."""

from contextlib import closing
from pathlib import Path
from typing import Final

from peewit.service.database.engine import open_database
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.settings import COMPILED, Settings

NOT_INHERITED: Final = (
    "database_url",
    "database_password_file",
    "scheduler",
    "admin_key_file",
    "items",
)
"""Settings of the user that would lead the demo out of its home."""


def demo_settings(settings: Settings, directory: Path) -> Settings:
    """The same settings with the demo's directory as home and its own SQLite file."""
    changes = {"home": directory.expanduser().absolute(), **dict.fromkeys(NOT_INHERITED)}
    return settings.model_copy(update=changes)


def take_home(home: Path, marker: str, whose: str) -> None:
    """Make the home, or make sure that an earlier run made it; raises FileExistsError."""
    made = home / marker
    if home.exists() and not home.is_dir():
        raise FileExistsError(f"--dir must be a directory, got the file {home}")
    names = {each.name for each in home.iterdir()} if home.exists() else set()
    if not made.exists() and names - {COMPILED}:
        raise FileExistsError(
            f"the {whose}'s directory must be new, empty or an earlier {whose}'s, got {home}; "
            "choose another --dir"
        )
    home.mkdir(parents=True, exist_ok=True)
    made.touch()


def require_idle(settings: Settings, whose: str) -> None:
    """Raise a RuntimeError where a server runs on a home, which would join in."""
    with closing(open_database(settings.database)) as database:
        alive = WorkerRegistry(database).alive()
    if alive:
        raise RuntimeError(
            f"the {whose}'s home must not be in use, got {settings.home}, where {alive[0].id} "
            "runs; stop that server or choose another --dir"
        )
