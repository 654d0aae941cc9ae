from tests.service.cli.conftest import home, no_home, peewit

__all__ = ["home", "no_home", "peewit"]
