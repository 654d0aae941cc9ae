"""`peewit demo`: the whole path on real digits."""

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from peewit.service.cli.machine.demo_command import demo_command
from peewit.service.cli.machine.first_run_kernels import INGEST
from peewit.service.cli.machine.role_options import Host, Port
from peewit.service.cli.machine.serve import run_serve
from peewit.service.cli.progress import CompileProgress
from peewit.service.cli.session import AsJson, command_group, echo, print_json, say, stderr_console
from peewit.service.demo.own_home import demo_settings
from peewit.service.demo.walk import DemoFiles, run_demo
from peewit.service.settings import Settings
from peewit.solvers.kernels.compilation import not_kept, told_of_compilations

app = command_group()


@app.command()
def demo(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="The demo's own home; <PEEWIT_HOME>/demo by default."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Then serve the API on the same data.")
    ] = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    json: AsJson = False,
) -> None:
    """Label 1,797 digits from 100 labels.

    Prints what was done, and how many of the other labels are right. Running it again starts
    afresh; only the demo's own graph is replaced, and labels that people gave are kept.
    """
    users = Settings()
    settings = demo_settings(users, directory or users.home / "demo")
    progress = CompileProgress(stderr_console(), lambda: not_kept(INGEST))

    def tell(line: str) -> None:
        progress.clear()
        (say if json else echo)(line)

    with progress, told_of_compilations(progress):
        result = run_demo(settings, tell)
    if json:
        print_json(asdict(result))
    else:
        _tell_more(settings, users, serve=serve)
    if serve:
        _tell_curl(host, port)
        run_serve(settings, host, port, 1)


def _tell_more(settings: Settings, users: Settings, *, serve: bool) -> None:
    peewit = demo_command(settings.home, users)
    truth = quote(str(DemoFiles(directory=settings.home).truth))
    echo("\nLook around, or label more and solve again:")
    echo(f"  {peewit} graph show digits")
    echo(f"  {peewit} predictions digits | head -4")
    echo(f"  {peewit} evaluate digits {truth}")
    if not serve:
        echo(f"  {peewit} serve")


def _tell_curl(host: str, port: int) -> None:
    graph = f"http://{host}:{port}/v1/graphs/digits"
    say(f"\nOpen http://{host}:{port} in a browser: digits, then Label next.")
    say("Or try, in another terminal:")
    say(f"  curl {graph}")
    say(f"  curl '{graph}/predictions/node?id=digit-0042'")
    say(f"  curl '{graph}/predictions?format=csv' | head -4")
    say(
        f"  curl -X PUT {graph}/labels "
        """--json '{"labels": [{"node": "digit-0042", "label": 1}]}'"""
    )
    say(f"""  curl {graph}/jobs --json '{{"model": "stable-hfs"}}'""")
