"""Write what is written from declarations: `python -m tests.goldens.generate`.

The client's package is not imported, as calls that it names may not be written yet.
"""

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import peewit

ROOT = Path(__file__).parents[2]
IMAGE = re.compile(r"\bpeewit:\d[\w.]*")


def main() -> None:
    """Write every module anew."""
    service = Path(peewit.__file__).parent / "service"
    package = ModuleType("peewit.service.client")
    package.__path__ = [str(service / "client")]
    sys.modules[package.__name__] = package
    calls = import_module("tests.goldens.client_calls")
    for subject in calls.SUBJECTS:
        path = service / "client" / "calls" / Path(subject.__file__).name
        path.write_text(calls.module_text(subject), encoding="utf-8")
    words = import_module("tests.goldens.command_words")
    (service / "cli" / "command_words.py").write_text(words.module_text(), encoding="utf-8")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for path in of_image():
        text = IMAGE.sub(f"peewit:{version}", path.read_text())
        path.write_text(text)


def of_image() -> list[Path]:
    """Files that name the image of this version."""
    docker = ROOT / "docker"
    return [docker / ".env.example", docker / "compose.yaml", *docker.glob("kubernetes/**/*.yaml")]


if __name__ == "__main__":
    main()
