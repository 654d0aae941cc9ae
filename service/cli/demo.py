"""`peewit demo`: the whole path on real digits."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from peewit.service.cli.roles import Host, Port, run_serve
from peewit.service.cli.session import AsJson, command_group, print_json, say
from peewit.service.demo.walk import DemoFiles, demo_settings, run_demo
from peewit.service.settings import Settings

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
    afresh; only the demo's own graph is replaced.
    """
    settings = demo_settings(Settings(), directory or Settings().home / "demo")
    result = run_demo(settings, say if json else typer.echo)
    if json:
        print_json(asdict(result))
    else:
        _tell_more(settings, serve=serve)
    if serve:
        _tell_curl(host, port)
        run_serve(settings, host, port, 1)


def _tell_more(settings: Settings, *, serve: bool) -> None:
    files = DemoFiles(directory=settings.home)
    typer.echo("\nLook around, or label more and solve again:")
    typer.echo(f"  export PEEWIT_HOME={settings.home}")
    typer.echo("  peewit graph show digits")
    typer.echo("  peewit predictions digits | head -4")
    typer.echo(f"  peewit evaluate digits {files.truth}")
    if not serve:
        typer.echo("  peewit serve")


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
