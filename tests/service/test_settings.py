"""What the environment says, and what it sets for the libraries."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from peewit.service.settings import Settings, prepare_environment
from peewit.solvers.kernels.cache_directory import cache_directory


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # so that what a test sets is taken back
    for name in os.environ:
        if name.startswith("PEEWIT_") or name in {"NUMBA_CACHE_DIR", "OMP_NUM_THREADS"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_without_variables_home_and_database_lie_in_the_working_directory(tmp_path: Path) -> None:
    settings = Settings()
    assert settings.home == tmp_path / "peewit-data"
    assert settings.graphs_directory == tmp_path / "peewit-data" / "graphs"
    assert settings.database.drivername == "sqlite"
    assert settings.database.database == str(tmp_path / "peewit-data" / "peewit.db")


def test_home_stays_the_same_from_another_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PEEWIT_HOME", "here")
    settings = Settings()
    monkeypatch.chdir(Path("/"))
    assert settings.home == tmp_path / "here"


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEEWIT_SCHEDULER", "")
    monkeypatch.setenv("PEEWIT_THREADS", "")
    settings = Settings()
    assert settings.scheduler is None
    assert settings.n_threads >= 1


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PEEWIT_THREADS", "0"),
        ("PEEWIT_MAX_BODY_BYTES", "-1"),
        ("PEEWIT_MAX_BACKLOG_BYTES", "much"),
        ("PEEWIT_LOG_LEVEL", "loud"),
        ("PEEWIT_TRUSTED_PROXIES", "*"),
    ],
)
def test_a_variable_against_its_rule_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValidationError, match=variable.removeprefix("PEEWIT_").lower()):
        Settings()


def test_the_log_level_may_be_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEEWIT_LOG_LEVEL", "WARNING")
    assert Settings().log_level == "warning"


def test_the_password_comes_from_its_file_and_is_not_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("p@ss/word\n")
    monkeypatch.setenv("PEEWIT_DATABASE_URL", "postgresql://peewit@db/peewit")
    monkeypatch.setenv("PEEWIT_DATABASE_PASSWORD_FILE", str(tmp_path / "password"))
    url = Settings().database
    assert url.password == "p@ss/word"
    assert "p@ss" not in str(url)


def test_a_password_in_the_url_is_not_shown_with_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PEEWIT_DATABASE_URL", "postgresql://peewit:hidden@db/peewit")
    assert "hidden" not in repr(Settings())


def test_two_passwords_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PEEWIT_DATABASE_URL", "postgresql://peewit:hidden@db/peewit")
    monkeypatch.setenv("PEEWIT_DATABASE_PASSWORD_FILE", str(tmp_path / "password"))
    with pytest.raises(ValueError, match=r"PEEWIT_DATABASE_PASSWORD_FILE.*\*\*\*@db"):
        _ = Settings().database


def test_an_unreadable_url_is_refused_with_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEEWIT_DATABASE_URL", "somewhere")
    with pytest.raises(ValueError, match="PEEWIT_DATABASE_URL must read sqlite"):
        _ = Settings().database


def test_compiled_code_is_kept_for_the_user_and_not_for_a_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PEEWIT_HOME", str(tmp_path / "home"))
    prepare_environment(Settings())
    assert "NUMBA_CACHE_DIR" not in os.environ
    assert cache_directory() == tmp_path / "cache" / "peewit" / "numba"
    assert not (tmp_path / "home").exists()


def test_where_the_cache_of_the_user_cannot_be_written_home_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("not a directory")
    monkeypatch.setenv("PEEWIT_HOME", str(tmp_path / "home"))
    prepare_environment(Settings())
    assert cache_directory() == tmp_path / "home" / "numba-cache"


def test_without_any_writable_place_everything_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("PEEWIT_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    prepare_environment(Settings())
    assert "NUMBA_CACHE_DIR" not in os.environ


def test_variables_that_are_set_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/chosen")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    for name in ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "7")
    prepare_environment(Settings(threads=2))
    assert os.environ["NUMBA_CACHE_DIR"] == "/chosen"
    assert os.environ["OMP_NUM_THREADS"] == os.environ["OPENBLAS_NUM_THREADS"] == "7"


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="needs processes kept to some processors (Linux)"
)
def test_pools_keep_to_the_processors_of_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    of_blas = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    for name in (*names, *of_blas):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    prepare_environment(Settings())
    assert [os.environ[name] for name in names] == [str(Settings().n_threads)] * 2
    assert [os.environ[name] for name in of_blas] == ["1"] * 2
    assert Settings().n_threads <= 3


@pytest.mark.usefixtures("processes")
def test_reading_the_settings_loads_neither_numpy_nor_numba() -> None:
    code = (
        "import sys; from peewit.service.settings import Settings, prepare_environment; "
        "prepare_environment(Settings()); "
        "print([name for name in ('numpy', 'numba', 'pyarrow') if name in sys.modules])"
    )
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert result.stdout.strip() == "[]"
