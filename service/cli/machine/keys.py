"""`peewit key`: who may call the API."""

from typing import Annotated

import typer

from peewit.service.cli.session import (
    AsJson,
    command_group,
    echo,
    open_home,
    print_json,
    print_rows,
    say,
    tell,
)
from peewit.service.key_store import SCOPES, Scope

app = command_group("Keys of the HTTP API.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(help=f"What it allows: {', '.join(SCOPES)}; repeatable. Default: admin."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Make a key and print it; it cannot be shown again."""
    scopes = [_scope(each) for each in scope or ["admin"]]
    with open_home() as home:
        key = home.keys.create(name, scopes)
    if json:
        print_json({"name": name, "scopes": scopes, "prefix": key.partition(".")[0], "key": key})
        return
    say("Keep it: it is stored as a hash and cannot be shown again. Send it as")
    say("  Authorization: Bearer <key>")
    echo(key)


@app.command("list")
def list_keys(json: AsJson = False) -> None:
    """List keys without their secrets."""
    with open_home() as home:
        keys = home.keys.list()
    if json:
        print_json(keys)
        return
    print_rows(
        ("prefix", "name", "scopes", "created", "last used", "revoked"),
        (
            (
                each.prefix,
                each.name,
                " ".join(each.scopes),
                each.created_at,
                each.last_used_at,
                each.revoked_at,
            )
            for each in keys
        ),
    )


@app.command()
def revoke(
    prefix: Annotated[str, typer.Argument(help="What stands before the dot of the key.")],
    json: AsJson = False,
) -> None:
    """Refuse a key from now on."""
    prefix = prefix.partition(".")[0]
    with open_home() as home:
        store = home.keys
        store.revoke(prefix)
        is_last = all(each.revoked_at is not None for each in store.list())
    tell(f"revoked {prefix}", {"prefix": prefix, "revoked": True}, as_json=json)
    if is_last:
        say("It was the last one: nobody can call now. Make a key with `peewit key create NAME`;")
        say("`peewit key open` lets this machine call without one, as before the first.")


@app.command("open")
def open_again(json: AsJson = False) -> None:
    """Let whoever is on this machine call without a key; all keys must be revoked."""
    with open_home() as home:
        home.keys.open_again()
    text = "Every account of this machine can now read, label, ingest and erase without a key."
    tell(text, {"open": True}, as_json=json)


def _scope(text: str) -> Scope:
    for scope in SCOPES:
        if text == scope:
            return scope
    raise typer.BadParameter(
        f"must be one of {', '.join(SCOPES)}, got {text!r}", param_hint="--scope"
    )
