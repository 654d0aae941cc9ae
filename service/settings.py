"""Settings from the environment, read once.

Light on purpose: every entry point imports this first and calls `prepare_environment` before numpy
and numba, which read the environment when they load. Two others read variables themselves:
`peewit.service.client`, which must load none of this, and `peewit.service.live_sources`, where
secrets of other systems come from the environment alone.
"""

import os
import tempfile
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import ByteSize, Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from peewit.solvers.kernels.cache_directory import cache_directory
from peewit.streaming.container_limits import n_usable_processors

if TYPE_CHECKING:
    from sqlalchemy import URL

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "console", "json"]

_THREAD_VARIABLES: Final = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")
_BLAS_VARIABLES: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


OBJECT_STORES: Final = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
"""Protocols of fsspec that reach stores whose addresses no caller chooses."""


COMPILED: Final = "numba-cache"
"""Directory of compiled code in a home; commands create it where the user's cache directory is not
writable."""


def _working_directory() -> tuple[Path, ...]:
    here = Path.cwd()
    return () if here == Path(here.anchor) else (here,)


class Settings(BaseSettings):
    """The settings of one installation; each field is an environment variable ``PEEWIT_<FIELD>``.

    The description of a field stands below it.
    """

    model_config = SettingsConfigDict(env_prefix="PEEWIT_", env_ignore_empty=True, frozen=True)

    home: Annotated[Path, Field(validate_default=True)] = Path("peewit-data")
    """Directory of the graphs and, by default, of the SQLite file; kept as an absolute path."""
    database_url: Annotated[str | None, Field(repr=False)] = None  # may hold a password
    """``sqlite:///<path>`` or ``postgresql://user@host/name``; the default is a SQLite file in
    ``home``."""
    database_password_file: Path | None = None
    """File with the password that ``database_url`` leaves out."""
    scheduler: str | None = None
    """Address of a dask scheduler whose workers sparsify the files, and read them again for
    certificates and exact answers; without one, threads of the process that asks do."""
    admin_key_file: Path | None = None
    """File with an admin key, ``<prefix>.<secret>``, that is made valid at the start."""
    threads: PositiveInt | None = None
    """Threads of each process that computes; the default is one per processor that it may use, as
    the limit of its container says."""
    memory_limit: Annotated[ByteSize, Field(ge=1)] | None = None
    """Most bytes of resident memory of an ingesting process, also as ``2.5GiB``; buffer and blocks
    are sized for it. An ingest that cannot keep to it does not start, and says what it needs, which
    follows from the graph's ``expected_nodes``."""
    checkpoint_seconds: NonNegativeFloat = 30.0
    """Longest time between two checkpoints of a running ingest; what a kill costs to replay."""
    child_memory_bytes: Annotated[ByteSize, Field(ge=1)] = ByteSize(2 * 2**30)
    """Resident memory above which a process that solves forgets graphs it has prepared, also as
    ``6GiB``. What a graph leaves of it is for columns that make the solves of changed labels fast,
    8 bytes a node and label, and for the Gram matrices of models of points, which are refused
    beyond it; the API must be told the same as the worker."""
    max_body_bytes: PositiveInt = 256 * 2**20
    """Largest body of one request, and most bytes of a page or batch of it once it is decoded."""
    head_seconds: PositiveFloat = 10.0
    """Longest time in which the head of a request (request line and headers) may come, from the
    connection or its first byte on; the connection is closed after it."""
    body_seconds: PositiveFloat = 30.0
    """Longest pause of a body while it arrives; one that stalls for longer, or comes at less than a
    kibibyte per second for longer, is refused."""
    max_decoded_bytes: PositiveInt = 2**30
    """Most bytes that the table of one request may come to once it is decoded."""
    max_body_rows: PositiveInt = 50_000_000
    """Most rows of such a table."""
    max_columns: PositiveInt = 10_000
    """Most columns of such a table, whether anybody reads them or not."""
    max_decoding_bytes: PositiveInt = 2 * 2**30
    """Most bytes that the tables which one process of the API decodes at a time come to; further
    ones wait for a while, and are then sent away."""
    max_label_rows: PositiveInt = 1_000_000
    """Most rows of a table of labels, times the label columns that are put from it."""
    max_backlog_bytes: PositiveInt = 4 * 2**30
    """Largest sum of pushed blocks of one graph that wait to be ingested."""
    max_total_backlog_bytes: PositiveInt = 16 * 2**30
    """Largest sum of pushed blocks of all graphs that wait."""
    max_graphs: PositiveInt = 1000
    """Most graphs there may be at a time."""
    max_sources: PositiveInt = 1000
    """Most sources of a graph that are not removed."""
    rate_limit: PositiveFloat | None = None
    """Requests per second of one key, or of one address where there is no key, in each process of
    the API; twice as many may come at once, and health and readiness are not counted. Unlimited by
    default, since on one's own machine nobody gains by a limit."""
    max_streams_per_key: PositiveInt = 100
    """Most answers that stay open at a time of one key, or of one address where there is no key, in
    each process of the API: events of jobs, tables, and calls that wait."""
    max_streams: PositiveInt = 1000
    """The same of all callers together."""
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses and networks, separated by commas, of the proxies in front of the API. Only they
    are believed who calls, and by which protocol (``X-Forwarded-For``, ``X-Forwarded-Proto``)."""
    source_roots: Annotated[tuple[Path, ...], NoDecode] = Field(default_factory=_working_directory)
    """Local directories that sources added over HTTP may lie in, links followed, separated by
    ``:``; never ``home``. The working directory by default, unless it is ``/``."""
    source_schemes: Annotated[tuple[str, ...], NoDecode] = OBJECT_STORES
    """Protocols of such sources, separated by commas; those of object stores by default."""
    source_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Hosts, as ``name`` or ``name:port``, that such sources may reach by http and https, or as
    brokers of Kafka, and that redirects of any source may lead to; none by default."""
    min_free_bytes: ByteSize = ByteSize(256 * 2**20)
    """Free space below which the home's disk counts as full: the API is not ready then."""
    drain_seconds: NonNegativeFloat = 0.0
    """Time between a stop signal and the moment when the API stops to listen; /readyz says no
    meanwhile, so that a load balancer sends nothing more."""
    finish_seconds: PositiveInt = 5
    """Time that requests in hand have after that."""
    list_seconds: PositiveFloat = 2.0
    """Time between two listings of a followed source; of a live one that is not quiet a tenth of it
    may do."""
    settle_seconds: NonNegativeFloat = 2.0
    """A file of a followed source is taken once size and version have stayed so long."""
    unfinished_seconds: NonNegativeFloat = 600.0
    """Time for which such a file that does not end as a Parquet file does is waited for."""
    stall_seconds: PositiveFloat = 45.0
    """Ingest that has neither made progress nor used the processor for so long, and a listing that
    takes longer, is told as standing still; the default is seen within a minute."""
    erase_within: PositiveFloat = 86_400.0
    """Seconds within which the files of nodes that were asked to be forgotten are overwritten; it
    is done as soon as nothing stands in the way, and `peewit doctor` tells what is late."""
    reserve_seconds: PositiveFloat = 600.0
    """Seconds for which a node that one annotator is shown is not shown to another one."""
    second_opinions: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of the labels given by hand, drawn at random, that another person is asked for, too; 0
    asks for none."""
    metrics_port: Annotated[int | None, Field(ge=1, le=65535)] = None
    """Where the ingest daemon and the worker show their metrics, and at ``/healthz`` whether they
    are well, each on its machine; nowhere by default. Under ``serve`` the worker takes the next
    port."""
    metrics_host: str = "127.0.0.1"
    """Address of the metrics port."""
    items: Path | None = None
    """Directory of pictures and texts of nodes, which the dashboard shows, in it a directory for
    each graph; ``items`` in ``home`` by default. See `peewit.service.dashboard.node_media`."""
    log_level: LogLevel = "info"
    """The least severe messages that are logged; ``debug`` adds tracebacks to errors."""
    log_format: LogFormat = "auto"
    """How the processes that stay log; ``auto`` is text on a terminal and JSON elsewhere."""

    @field_validator("home", "items")
    @classmethod
    def _absolute(cls, directory: Path | None) -> Path | None:
        """The same directory wherever a child process starts."""
        return None if directory is None else directory.expanduser().absolute()

    @field_validator("source_roots", mode="before")
    @classmethod
    def _paths(cls, roots: object) -> object:
        return roots.split(os.pathsep) if isinstance(roots, str) else roots

    @field_validator("source_roots")
    @classmethod
    def _absolute_roots(cls, roots: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(root.expanduser().absolute() for root in roots)

    @field_validator("source_schemes", "source_hosts", "trusted_proxies", mode="before")
    @classmethod
    def _names(cls, names: object) -> object:
        if not isinstance(names, str):
            return names
        return [name.strip().lower() for name in names.split(",") if name.strip()]

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(ip_network(each, strict=False)) for each in proxies)

    @field_validator("log_level", "log_format", mode="before")
    @classmethod
    def _lower(cls, word: object) -> object:
        return word.lower() if isinstance(word, str) else word

    @property
    def database(self) -> "URL":
        """The address for `open_database`, with the password, which printing hides.

        Raises a ValueError for an address that cannot be read or two passwords, an OSError for a
        password file that cannot be read.
        """
        from sqlalchemy import URL, make_url  # noqa: PLC0415 - slow; not every command needs it
        from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

        if self.database_url is None:
            return URL.create("sqlite", database=str(self.home / "peewit.db"))
        try:
            url = make_url(self.database_url)
        except ArgumentError as error:
            raise ValueError(
                "PEEWIT_DATABASE_URL must read sqlite:///<path> or postgresql://<user>@<host>/<name>"
            ) from error
        if self.database_password_file is None:
            return url
        if url.password is not None:
            raise ValueError(
                "PEEWIT_DATABASE_URL must leave out the password that "
                f"PEEWIT_DATABASE_PASSWORD_FILE holds, got {url!r}"
            )
        return url.set(password=self.database_password_file.read_text().rstrip("\r\n"))

    @property
    def graphs_directory(self) -> Path:
        """Where each graph has a directory, named by its id."""
        return self.home / "graphs"

    @property
    def items_directory(self) -> Path:
        """Where each graph may have a directory of its nodes' pictures and texts, named like it."""
        return self.items or self.home / "items"

    @property
    def graph_memory_bytes(self) -> int | None:
        """Memory that ingest or solves are limited to; None where nobody has set a limit.

        The default of ``child_memory_bytes`` does not count: it bounds what a process keeps, not a
        solve.
        """
        limits = [] if self.memory_limit is None else [int(self.memory_limit)]
        if "child_memory_bytes" in self.model_fields_set:
            limits.append(int(self.child_memory_bytes))
        return min(limits, default=None)

    @property
    def n_threads(self) -> int:
        """Threads that one process computes with."""
        return self.threads or n_usable_processors()


def prepare_environment(settings: Settings) -> None:
    """Set what numba and the BLAS read when they load; variables already set stay as they are.

    Compiled code goes to ``peewit/numba`` of the user's cache directory; where that is not
    writable, ``NUMBA_CACHE_DIR`` becomes ``<home>/numba-cache``. ``threads``, or else the quota of
    a container, which libraries do not see, bounds the pools of numba and OpenMP. BLAS has one
    thread (`peewit.solvers.blas_threads`). Children inherit all of it.
    """
    for variable in _BLAS_VARIABLES:
        os.environ.setdefault(variable, "1")
    in_home = settings.home / COMPILED
    is_named = "NUMBA_CACHE_DIR" in os.environ
    if not is_named and not takes_files(cache_directory()) and takes_files(in_home):
        os.environ["NUMBA_CACHE_DIR"] = str(in_home)
    if settings.threads is not None or settings.n_threads < (os.cpu_count() or 1):
        for variable in _THREAD_VARIABLES:
            os.environ.setdefault(variable, str(settings.n_threads))


def takes_files(directory: Path | None) -> bool:
    """Whether the directory exists or can be made, and is writable."""
    if directory is None:
        return False
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def share_metrics(directory: Path) -> None:
    """Make processes that start from now on keep their counters in files of this directory.

    prometheus_client reads the variable on import, which this process has already done.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)


def metrics_directory() -> Path | None:
    """Where this process and its siblings keep their counters; None when it is alone."""
    directory = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    return Path(directory) if directory else None
