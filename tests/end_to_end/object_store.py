"""A local S3-compatible server in a process of its own, for tests of object-store sources."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.end_to_end.processes import START_SECONDS, free_port

MISSING = [name for name in ("moto", "s3fs", "flask", "flask_cors") if find_spec(name) is None]

_OWNER = (
    "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=none"
)

needs_object_store = pytest.mark.skipif(
    bool(MISSING), reason=f"needs {', '.join(MISSING)}; pip install -e '.[test]' brings them"
)


class ObjectStore:
    """An S3 endpoint on loopback that can be stopped and started again on its port.

    It keeps objects in memory: after a start they must be put again. Equal content has an equal
    entity tag, as in S3.
    """

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = (directory / "object-store.log").open("a")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to read from it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI-hidden-EXAMPLEKEY",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self, **environment: str) -> None:
        """Start it, empty but for the bucket ``bucket``."""
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(
            command,
            env=os.environ | {"MOTO_PORT": str(self.port)} | environment,
            stdout=self._log,
            stderr=self._log,
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.request("PUT", "/bucket")
                return
            except (URLError, ConnectionError):
                assert self._process.poll() is None, "the object store has ended"
                assert time.monotonic() < deadline, "the object store does not answer"
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop it: connections are refused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop it for good."""
        self.stop()
        self._log.close()

    def put(self, key: str, content: bytes) -> None:
        """Put an object."""
        self.request("PUT", f"/bucket/{key}", content)

    def delete(self, key: str) -> None:
        """Delete an object."""
        self.request("DELETE", f"/bucket/{key}")

    def request(self, method: str, path: str, content: bytes = b"") -> bytes:
        """Send a request as the owner does; moto does not verify the signature unless told to."""
        headers = {
            "Authorization": _OWNER,
            "Content-Type": "application/octet-stream",  # else it waits for a form
        }
        request = Request(self.url + path, content, headers, method=method)
        with urlopen(request, timeout=30) as answer:
            return bytes(answer.read())


@contextmanager
def object_store(directory: Path, **environment: str) -> Iterator[ObjectStore]:
    """A running store, stopped at the end."""
    store = ObjectStore(directory)
    try:
        store.start(**environment)
        yield store
    finally:
        store.close()


def parquet(path: Path, table: Any) -> bytes:
    """The table as the content of an object."""
    import pyarrow.parquet as pq

    pq.write_table(table, path)
    return path.read_bytes()
