"""Command line: parse, call, print; it decides nothing.

One module holds one group of commands, or those of a group that load alike. It is imported when
one of its commands runs, after `prepare_environment`, so that numba reads the right settings and
light commands start fast.
"""

import sys
from typing import Any, Final

import typer

from peewit.service.cli.lazy_group import LazyGroup, Member

_MEMBERS: Final = {
    "demo": Member("demo", "Label 1,797 digits from 100 labels."),
    "serve": Member("serve", "Run api, ingest and worker on this machine."),
    "api": Member("api", "Answer HTTP requests."),
    "worker": Member("worker", "Run the jobs that wait in the queue."),
    "ingest": Member("ingest", "Bring edges into a graph."),
    "delete": Member("delete_edges", "Delete all edges between some pairs of nodes."),
    "erase": Member(
        "erase_nodes",
        "Forget nodes: their edges, labels, features and predictions, and their ids.",
    ),
    "retract": Member("retract", "Take all edges of some files out of a graph again."),
    "expire": Member(
        "expire",
        "Let go of all edges before a time, as a window does by itself once newer ones come.",
    ),
    "repair": Member(
        "repair",
        "Sample edges anew that deletes have spoiled, now instead of before the next snapshot.",
    ),
    "graph": Member("graphs", "Graphs and their settings."),
    "source": Member("sources", "What the ingest daemon reads."),
    "features": Member(
        "features", "Give nodes features; nodes that the graph does not know are created."
    ),
    "labels": Member("labels", "Labels of nodes."),
    "solve": Member(
        "solve",
        "Predict every node's label: a class, or with --model hfs --set target=real a number.",
    ),
    "estimate": Member(
        "solve", "Say what a solve would take, and whether it fits; exit with 1 where it does not."
    ),
    "jobs": Member("jobs", "Jobs of the queue."),
    "certify": Member(
        "certify", "Measure how far a snapshot is from the raw edges that it stands for."
    ),
    "tune": Member("tune", "Choose hyperparameters by cross-validation over the present labels."),
    "predictions": Member("predictions", "Write the latest predictions, or those of one job."),
    "predict": Member(
        "predict",
        "Predict points that are no nodes of the graph, by a model that was solved on features.",
    ),
    "evaluate": Member("judging", "Compare predictions with true labels."),
    "abstain": Member(
        "judging",
        "Say how sure a prediction must be for few to be wrong, by the labels left out.",
    ),
    "sets": Member(
        "judging",
        "Say what sets of labels promise that hold the true one, and how large they are.",
    ),
    "threshold": Member(
        "judging",
        "Choose a threshold on the score of a class, by the labels left out of the latest solve.",
    ),
    "why": Member(
        "why", "Say which labels speak for what is predicted of a node, and how walks come to them."
    ),
    "suggest": Member(
        "suggest", "Say which nodes to label next: those whose label would help most."
    ),
    "labelstudio": Member("label_studio", "Label with Label Studio: tasks out, annotations in."),
    "mcp": Member("mcp", "Serve tools for agents by the Model Context Protocol."),
    "map": Member("map", "Draw the nodes of the newest snapshot, for the page of the graph."),
    "watch": Member(
        "watch", "Watch a graph: ingest, backlog, refused files and jobs, until Ctrl-C."
    ),
    "key": Member("keys", "Keys of the HTTP API."),
    "backup": Member(
        "backup",
        "Copy all graphs, labels, jobs, predictions and keys into DIR, while everything runs.",
    ),
    "restore": Member(
        "backup", "Bring a backup into an empty PEEWIT_HOME and an empty database, of either kind."
    ),
    "doctor": Member(
        "doctor",
        "Look at machine, database and files, also while everything runs; exit 1 for a fault.",
    ),
    "version": Member("version_and_health", "Show versions."),
    "warm": Member("warm", None),
    "health": Member("version_and_health", None),
}
"""In the order of ``peewit --help``."""


_ROLES: Final = frozenset({"serve", "api", "worker", "ingest"})


class _Commands(LazyGroup):
    """All commands and groups."""

    members = _MEMBERS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run; the environment is prepared before its module is imported."""
        if "--help" not in args and not ctx.resilient_parsing:
            from peewit.service.logs import configure_logging  # noqa: PLC0415 - help starts fast
            from peewit.service.settings import Settings, prepare_environment  # noqa: PLC0415
            from peewit.service.tracing.spans import start_tracing  # noqa: PLC0415

            prepare_environment(Settings())
            configure_logging("error")  # commands that stay say more
            if args[0] not in _ROLES:  # of which api and worker do it once they log
                start_tracing("command")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what is wrong with an option is told as our own errors are."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if hasattr(error.__cause__, "errors"):  # pydantic, by which typer reads options
                from peewit.service.cli.failure import broken_rules  # noqa: PLC0415 - rare

                error.message = broken_rules(error.__cause__)
            raise


_app = typer.Typer(
    cls=_Commands,
    add_completion=True,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@_app.callback()
def _peewit() -> None:
    """Label a few nodes of a graph that does not fit in memory; get every other node's label."""


def main() -> None:
    """Run the command of ``sys.argv``; exit 0 done, 1 failed, 2 wrong usage, 75 taken over.

    With ``--json`` the last line on stderr is what went wrong, as JSON.
    """
    as_json = "--json" in sys.argv
    try:
        exit_code = typer.main.get_command(_app)(prog_name="peewit", standalone_mode=not as_json)
    except Exception as error:  # noqa: BLE001 - `tell_failure` raises the unexpected again
        from peewit.service.cli.failure import tell_failure  # noqa: PLC0415 - only errors need it

        exit_code = tell_failure(error, as_json=as_json)
    sys.exit(exit_code)
