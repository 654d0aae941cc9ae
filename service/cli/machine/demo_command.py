"""Shell words that run this program, on the home of a demo or a trial if need be."""

import shutil
import sys
from pathlib import Path
from shlex import quote

from peewit.service.demo.own_home import NOT_INHERITED
from peewit.service.settings import Settings


def demo_command(home: Path, users: Settings) -> str:
    """Shell command that runs this program on the demo's home, from any directory."""
    # an empty variable is an unset one
    unset = [
        f"PEEWIT_{name.upper()}=" for name in NOT_INHERITED if getattr(users, name) is not None
    ]
    return " ".join([f"PEEWIT_HOME={quote(str(home))}", *unset, program(may_be_found=True)])


def program(*, may_be_found: bool = False) -> str:
    """Shell words that run this program from any directory; by its name if the PATH may find it."""
    own = Path(sys.executable).with_name("peewit")
    installed = shutil.which("peewit") if may_be_found else None
    if installed is not None and own.exists() and Path(installed).samefile(own):
        return "peewit"
    return quote(str(own)) if own.exists() else f"{quote(sys.executable)} -m peewit"
