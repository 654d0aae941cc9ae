"""Groups of commands whose modules are imported when a command runs.

Help and completion need only a name and a line of help, from the group's table.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from peewit.service.cli.command_words import HELP
from peewit.service.cli.completion import stand_in


class LazyGroup(TyperGroup):
    """Commands by name, their modules imported at first use.

    ``members`` are modules of `peewit.service.cli` with an ``app``, by command, in the order of
    ``--help``; ``prefix`` is the name of the group and a space.
    """

    members: ClassVar[Mapping[str, str]] = {}
    prefix: ClassVar[str] = ""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names."""
        del ctx
        return list(self.members)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run; while a shell completes, one that only has its words."""
        if ctx.resilient_parsing and args and args[0] in self.members:
            group = "" if ctx.parent is None else f"{ctx.info_name} "
            if (command := stand_in(f"{group}{args[0]}")) is not None:
                return args[0], command, args[1:]
        is_typed = bool(args) and not ctx.resilient_parsing and not args[0].startswith("-")
        if is_typed and args[0] not in self.members:
            ctx.fail(f"No such command {args[0]!r}.{self._meant(args[0])}")
        return super().resolve_command(ctx, args)

    def _meant(self, word: str) -> str:
        """What a word that is no command may stand for: near ones here, or equal ones elsewhere."""
        from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it

        found = [name for name in HELP if name.rpartition(" ")[2] == word]
        if not found:
            shown = [name for name in self.members if not self.is_hidden(name)]
            found = [self.prefix + name for name in get_close_matches(word, shown, n=3)]
        commands = [f"`peewit {name}`" for name in found]
        return f" Did you mean {' or '.join(commands)}?" if commands else ""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, or None."""
        del ctx
        if cmd_name not in self.members:
            return None
        module = import_module(f"peewit.service.cli.{self.members[cmd_name]}")
        command = typer.main.get_command(module.app)
        return (
            command.commands.get(cmd_name, command) if isinstance(command, TyperGroup) else command
        )

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and their lines of help."""
        self._summary().format_commands(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Names and options that begin so."""
        summary = self._summary()
        context = typer.Context(summary, parent=ctx.parent, info_name=ctx.info_name)
        return summary.shell_complete(context, incomplete)

    def is_hidden(self, name: str) -> bool:
        """Whether help leaves a command out."""
        return self.prefix + name not in HELP

    def _summary(self) -> TyperGroup:
        """The group with commands that only have their help."""
        commands: Any = {
            name: TyperCommand(name, help=HELP.get(self.prefix + name), hidden=self.is_hidden(name))
            for name in self.members
        }
        return TyperGroup(name=self.name, commands=commands, params=self.params)
