"""Fixtures and settings that every test may use: data, databases, hypothesis profiles.

A test that asks for something this machine does not have is skipped with the reason and with what
would make it run. `HYPOTHESIS_PROFILE` chooses the profile; under CI=true it is `ci`.
"""

import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

# Before numpy and numba are imported, here and in the processes that tests start: small matrices
# are slower in several threads, and compiled kernels are shared.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".numba-cache"))

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from sqlalchemy.engine import URL, make_url

pytest_plugins = ["pytester", "tests.item_cost", "tests.process_guard", "tests.sets"]


class _NoSecondName:
    """Refuses the folders of the checkout as modules: a class imported twice is two classes."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """No module, or the error that names the right one."""
        del path, target
        if name in ("service", "solvers", "streaming"):
            raise ModuleNotFoundError(f"{name!r} is imported as 'peewit.{name}'", name=name)
        return None


sys.meta_path.insert(0, _NoSecondName)

# numba compiles inside the first example, so time limits per example would measure the compiler
settings.register_profile(
    "dev", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=1000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") == "true" else "dev")
)


@pytest.fixture(scope="session")
def peewit_data() -> Path:
    """Directory of the real data sets, named by PEEWIT_DATA."""
    named = os.environ.get("PEEWIT_DATA")
    if not named:
        pytest.skip("needs the real data sets; set PEEWIT_DATA to their directory")
    directory = Path(named)
    if not directory.is_dir():
        pytest.fail(f"PEEWIT_DATA must name a directory, got {named!r}")
    return directory


@pytest.fixture(scope="session")
def postgres_server() -> URL:
    """PostgreSQL server named by PEEWIT_TEST_POSTGRES_URL; its role may create databases."""
    named = os.environ.get("PEEWIT_TEST_POSTGRES_URL")
    if not named:
        pytest.skip(
            "needs PostgreSQL; set PEEWIT_TEST_POSTGRES_URL to "
            "postgresql+psycopg://user@host:port/database, or run .ci/run"
        )
    return make_url(named)


@pytest.fixture(scope="session")
def postgres_template(postgres_server: URL) -> Iterator[str]:
    """Name of a PostgreSQL database of the present schema, to be copied; nobody is connected."""
    from peewit.service.database.engine import open_database  # tests of solvers need none

    with fresh_database(postgres_server) as url:
        open_database(url).close()
        yield str(make_url(url).database)


@pytest.fixture
def postgres_url(postgres_server: URL, postgres_template: str) -> Iterator[str]:
    """Fresh PostgreSQL database of the present schema as an SQLAlchemy URL."""
    with fresh_database(postgres_server, template=postgres_template) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: URL) -> Iterator[str]:
    """PostgreSQL database without a table, as an SQLAlchemy URL."""
    with fresh_database(postgres_server) as url:
        yield url


@contextmanager
def fresh_database(postgres_server: URL, *, template: str = "template1") -> Iterator[str]:
    """A database of its own on a server, dropped when it is no longer needed."""
    name = f"peewit_test_{uuid.uuid4().hex}"
    server = postgres_server.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            yield postgres_server.set(database=name).render_as_string(hide_password=False)
        finally:
            # FORCE ends the sessions of worker processes that the test has killed
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            connection.execute(drop.format(sql.Identifier(name)))


_DATABASES: Final = ("sqlite", pytest.param("postgres", marks=pytest.mark.postgres))


@pytest.fixture(params=_DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Fresh database of the present schema on each engine that Peewit supports, as a URL."""
    if request.param == "sqlite":
        from tests.fresh_databases import fresh  # tests of solvers need none

        return fresh(f"sqlite:///{tmp_path / 'peewit.db'}")
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=_DATABASES)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Database without a table on each engine: for tests of how the schema comes to be."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'peewit.db'}"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url
