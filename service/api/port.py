"""Port and address of the API: loopback only, until a key was made."""

import resource
import socket
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from peewit.service.database.engine import Database
from peewit.service.key_store import KeyStore
from peewit.service.settings import Settings

_OTHER_FILES: Final = 1024
"""Open files of an API besides its streams; many systems allow a process so many at first."""


def check_binding(host: str, port: int, *, settings: Settings, database: Database) -> None:
    """Refuse an address that is taken, or that is open to others while there is no key.

    Raises PermissionError if the address reaches beyond this machine and there is neither a key nor
    an admin key file in the settings, and OSError if nobody can listen there. Port 0 lets the
    system choose.
    """
    has_key = settings.admin_key_file is not None or KeyStore(database).are_needed()
    if not has_key and not is_loopback(host):
        raise PermissionError(
            f"host must be a loopback address while there is no key, got {host}; make a key with "
            "`peewit key create NAME`, or name one in PEEWIT_ADMIN_KEY_FILE"
        )
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise OSError(
                f"cannot listen on {host} port {port}: {error.strerror}; choose another --port"
            ) from error


def allow_open_files(n_streams: int) -> None:
    """Let this process and its children have so many streams open, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = n_streams + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if resource.RLIM_INFINITY != soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _max_connections(n_streams: int) -> int:
    """Connections that leave open files for the rest of the process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = n_streams + _OTHER_FILES // 2
    if soft == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(soft - _OTHER_FILES // 2, soft // 2))


def server_options(settings: Settings) -> dict[str, Any]:
    """Options of ``uvicorn.Config`` for an API with these settings, besides where it listens."""
    from peewit.service.api.connections import ConnectionLimits  # noqa: PLC0415 - loads uvicorn

    limits = ConnectionLimits(
        head_seconds=settings.head_seconds, max_connections=_max_connections(settings.max_streams)
    )
    return {
        "http": limits.protocol(),
        "ws": "none",
        "log_config": None,
        "access_log": False,  # the application logs requests itself
        "proxy_headers": bool(settings.trusted_proxies),
        "forwarded_allow_ips": list(settings.trusted_proxies),  # not those of the environment
        "timeout_graceful_shutdown": settings.finish_seconds,
    }


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address; a name other than localhost may not be."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
