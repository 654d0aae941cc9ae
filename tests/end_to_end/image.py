"""The image of `make image`, its programs run by chroot where no container engine is.

``PEEWIT_TEST_IMAGE`` names the image and ``PEEWIT_TEST_BUILDAH`` how buildah is called. Processes
have the files, the variables and the user of the image, no capability and no way to gain one, as
docker/compose.yaml says. The network is that of this machine.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

NAME: Final = os.environ.get("PEEWIT_TEST_IMAGE", "")
BUILDAH: Final = shlex.split(os.environ.get("PEEWIT_TEST_BUILDAH", "buildah"))

ENTER: Final = """
set -eu
root=$1 user=$2 group=$3 directory=$4
shift 4
/bin/mount --rbind /proc "$root/proc"
/bin/mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
    /bin/mount -o "bind,$3" "$1" "$root$2"
    shift 3
done
shift
exec /usr/sbin/chroot "$root" /usr/bin/setpriv --reuid "$user" --regid "$group" --clear-groups \
    --bounding-set=-all --inh-caps=-all --no-new-privs /usr/bin/env --chdir "$directory" "$@"
"""
"""Becomes the program, so that its process is the one that was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A container of the image, mounted."""

    root: Path
    config: Mapping[str, Any]
    """As docker keeps it: User, Env, Entrypoint, Cmd, WorkingDir, ExposedPorts, Healthcheck."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables that the image sets."""
        return dict(each.split("=", 1) for each in self.config["Env"])

    def command(
        self, words: Sequence[str], volumes: Mapping[str, Path] | None = None, directory: str = ""
    ) -> list[str]:
        """A command line that runs words inside, with files from here at the places of volumes.

        A place that ends in ``:ro`` is read-only. Without a directory it is that of the image.
        """
        bound: list[str] = []
        for place, source in (volumes or {}).items():
            inside, _, mode = place.partition(":")
            (self.root / inside.lstrip("/")).mkdir(parents=True, exist_ok=True)
            bound += [str(source), inside, mode or "rw"]
        user, group = self.config["User"].split(":")
        where = directory or self.config["WorkingDir"]
        enter = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", ENTER, "enter"]
        return [*enter, str(self.root), user, group, where, *bound, "--", *words]

    def run(self, *words: str, volumes: Mapping[str, Path] | None = None) -> str:
        """What a command prints inside; its errors where it fails."""
        done = subprocess.run(
            self.command(words, volumes),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def mounted() -> Iterator[Image]:
    """A new container of the image, which is removed at the end."""
    inspected = json.loads(_buildah("inspect", "--type", "image", NAME))
    container = _buildah("from", "--pull=never", NAME)
    try:
        root = Path(_buildah("mount", container))
        yield Image(root=root, config=inspected["Docker"]["config"])
    finally:
        _buildah("rm", container)


def _buildah(*words: str) -> str:
    return subprocess.run(
        [*BUILDAH, *words], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
