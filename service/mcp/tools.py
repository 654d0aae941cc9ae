"""Tools that a model may call, each one or two calls of the client.

A model reads docstrings as descriptions of tools, and those of the parameters.
"""

from collections import OrderedDict
from typing import Annotated, Any, Final, Literal

from mcp.types import CallToolResult, TextContent
from pydantic import Field

from peewit.service.client import (
    Conflict,
    Forbidden,
    InvalidArgument,
    Job,
    JobFailed,
    PredictionsNotFound,
    StillWaiting,
)
from peewit.service.client.further_answers import Refusal
from peewit.service.mcp.answers import (
    Answer,
    Explanation,
    GraphLine,
    GraphLines,
    GraphState,
    JobState,
    LabelPut,
    LabelValue,
    NodeName,
    Rows,
    Suggested,
)
from peewit.service.mcp.connection import Connection
from peewit.service.wire.labels import LabelOrigin

MAX_GRAPHS: Final = 200
MAX_ROWS: Final = 100
MAX_NODES: Final = 50
MAX_REASONS: Final = 10
MAX_WAIT_SECONDS: Final = 120
_MAX_REMEMBERED: Final = 10_000
"""Suggested nodes that are remembered, to note the origin of their labels."""

GraphName = Annotated[str, Field(description="Name of the graph, as list_graphs tells it.")]
Node = Annotated[NodeName, Field(description="Id of the node, exactly as the graph has it.")]
Column = Annotated[
    str | None,
    Field(description="A named column of labels, as show_graph tells; null for the unnamed one."),
]
Wait = Annotated[
    float,
    Field(ge=0, le=MAX_WAIT_SECONDS, description="Most seconds to wait for the end of the job."),
]


class Tools:
    """Tools of one connection; it remembers which nodes it has suggested."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.client = connection.client
        self._suggested: OrderedDict[tuple[str, str | None, str], LabelOrigin] = OrderedDict()

    async def list_graphs(self) -> Annotated[CallToolResult, GraphLines]:
        """List the graphs that the key may see, with their sizes. Begin here."""
        graphs = await self.client.graphs()
        lines = [GraphLine.of(each) for each in graphs[:MAX_GRAPHS]]
        return told(f"{len(graphs)} graphs.", GraphLines(graphs=lines, n_graphs=len(graphs)))

    async def show_graph(
        self, graph: GraphName, label_column: Column = None
    ) -> Annotated[CallToolResult, GraphState]:
        """Show one graph: nodes, edges, label columns, and its last solve with its accuracy."""
        record = await self.client.graph(graph)
        columns = await self.client.label_columns(graph)
        solve = await self._last_solve(graph, label_column)
        state = GraphState.made(record, columns, solve)
        solved = "never solved" if solve is None else "solved"
        return told(f"{record.nodes} nodes, {record.edges_seen} edges, {solved}.", state)

    async def explain_node(
        self,
        graph: GraphName,
        node: Node,
        label_column: Column = None,
        k: Annotated[
            int, Field(ge=1, le=MAX_REASONS, description="Most labels for it, and against it.")
        ] = 5,
    ) -> Annotated[CallToolResult, Explanation]:
        """Tell what is predicted of one node, and which labels speak for and against it."""
        one = await self.client.prediction(graph, node, label_column=label_column)
        reasons, refusal = None, None
        try:
            reasons = await self.client.reasons(graph, node, k=k, job=one.job)
        except Conflict as error:  # the job kept nothing to tell reasons from
            refusal = error.detail
        answer = Explanation.made(one, one.prediction, reasons, refusal)
        return told("The prediction of one node, and why.", answer)

    async def list_predictions(
        self,
        graph: GraphName,
        label: Annotated[
            LabelValue | None, Field(description="Only nodes predicted of this class.")
        ] = None,
        margin_below: Annotated[
            float | None,
            Field(ge=0, description="Only doubtful nodes: their two best classes are closer."),
        ] = None,
        label_column: Column = None,
        first: Annotated[int, Field(ge=0, description="0, or next_first of the page before.")] = 0,
        limit: Annotated[int, Field(ge=1, le=MAX_ROWS, description="Most rows.")] = 20,
        job: Annotated[
            str | None,
            Field(
                description=("Predictions of this job; name that of the first page in the next.")
            ),
        ] = None,
    ) -> Annotated[CallToolResult, Rows]:
        """List predictions of nodes, a page at a time, in no order of meaning.

        suggest_nodes with strategy margin gives the most doubtful nodes first.
        """
        page = await self.client.prediction_rows(
            graph,
            label=label,
            margin_below=margin_below,
            first=first,
            limit=limit,
            job=job,
            label_column=label_column,
        )
        more = "there are more" if page.next_row is not None else "no more follow"
        return told(f"{len(page.predictions)} predictions; {more}.", Rows.of(page))

    async def suggest_nodes(
        self,
        graph: GraphName,
        k: Annotated[int, Field(ge=1, le=MAX_NODES, description="Most nodes.")] = 10,
        strategy: Annotated[
            Literal["margin", "variance", "coverage", "random"],
            Field(
                description="margin: the most doubtful predictions. variance, coverage: nodes that "
                "tell most of the others; they work before the first solve. random: a random "
                "sample, to judge accuracy by."
            ),
        ] = "margin",
        label_column: Column = None,
    ) -> Annotated[CallToolResult, Suggested]:
        """Suggest unlabeled nodes whose label would help most; ask a person for their labels."""
        for seconds in (0.0, float(MAX_WAIT_SECONDS)):
            try:
                suggestions = await self.client.suggestions(
                    graph, strategy, k, label_column=label_column, timeout=seconds
                )
                break
            except StillWaiting:
                if seconds:
                    raise
                await self._run_queued(graph)
        for each in suggestions.nodes:
            self._suggested[graph, label_column, str(each)] = suggestions.origin
        while len(self._suggested) > _MAX_REMEMBERED:
            self._suggested.popitem(last=False)
        return told(f"{len(suggestions.nodes)} nodes to label.", Suggested.of(suggestions))

    async def put_label(
        self,
        graph: GraphName,
        node: Node,
        label: Annotated[LabelValue, Field(description="Its class, as the graph writes it.")],
        label_column: Column = None,
        origin: Annotated[
            Literal["given", "suggested", "random"] | None,
            Field(
                description="How the node was chosen: by somebody (given), by suggest_nodes "
                "(suggested), at random (random). Null: as suggest_nodes of this session named it, "
                "else given. Accuracy is not judged by suggested ones."
            ),
        ] = None,
        new_class: Annotated[
            bool, Field(description="True to put a label that the last solve has no class for.")
        ] = False,
        unknown: Annotated[
            Literal["refuse", "keep"],
            Field(
                description="What becomes of the label of a node that the graph does not know: "
                "refuse it, or keep it until edges bring the node."
            ),
        ] = "refuse",
    ) -> Annotated[CallToolResult, LabelPut]:
        """Store the label of one node; it replaces the one that is there. A solve makes use of it.

        Put only what a person, or a source that you were told to trust, says of the node.
        """
        if not new_class:
            label = await self._known_class(graph, label, label_column)
        remembered = self._suggested.get((graph, label_column, str(node)), "given")
        chosen: LabelOrigin = origin or remembered
        columns = () if label_column is None else (label_column,)
        value = label if label_column is None else {label_column: label}
        receipt = await self.client.put_labels(
            graph, {node: value}, label_columns=columns, origin=chosen, unknown=unknown
        )
        stored = LabelPut(node=node, label=label, origin=chosen, labels_seq=receipt.labels_seq)
        return told("Stored.", stored)

    async def start_solve(
        self,
        graph: GraphName,
        model: Annotated[str, Field(description="auto suits most graphs.")] = "auto",
        label_column: Column = None,
        cross_validate: Annotated[
            int, Field(ge=0, le=20, description="Folds to measure accuracy by; 0 for none.")
        ] = 0,
        parameters: Annotated[
            dict[str, Any] | None,
            Field(
                description=(
                    "Other settings by name: objective (macro-f1 finds rare "
                    'classes), class_shares ({"fraud": 0.02}, known shares), '
                    "refine (true reads all edges), prove (0.01 proves labels to "
                    "be those of all edges). A wrong one is refused with what is "
                    "allowed."
                )
            ),
        ] = None,
        wait_seconds: Wait = 30.0,
    ) -> Annotated[CallToolResult, JobState]:
        """Start to predict all nodes from the present labels, and wait for a while.

        It goes on after the wait: ask show_job for its end.
        """
        settings = dict(parameters or {})
        if label_column is not None:
            settings["label_column"] = label_column
        if cross_validate:
            settings["cross_validate"] = cross_validate
        job = await self.client.submit_solve(graph, model, settings)
        self._connection.see_to(job.id)
        return await self._ended(job.id, wait_seconds)

    async def show_job(
        self,
        job: Annotated[str, Field(description="Id, as start_solve tells it.")],
        wait_seconds: Wait = 0.0,
    ) -> Annotated[CallToolResult, JobState]:
        """Show how a job stands, after a wait for its end if you like."""
        return await self._ended(job, wait_seconds)

    async def _ended(self, job_id: str, seconds: float) -> CallToolResult:
        """A job at its end, or as it stands after so many seconds."""
        try:
            job = await self.client.wait(job_id, timeout=seconds)
        except JobFailed as error:
            job = error.job
        except StillWaiting:
            job = await self.client.job(job_id)
        return told(f"The job is {job.status}.", JobState.of(job))

    async def _last_solve(self, graph: str, label_column: str | None) -> Job | None:
        """The job of the newest predictions."""
        try:
            page = await self.client.prediction_rows(graph, limit=1, label_column=label_column)
        except PredictionsNotFound:
            return None
        return await self.client.job(page.job)

    async def _run_queued(self, graph: str) -> None:
        """Run queued jobs that locate the nodes."""
        async for job in self.client.jobs(graph=graph, status="queued"):
            if job.kind == "embed":
                self._connection.see_to(job.id)

    async def _known_class(
        self, graph: str, label: LabelValue, label_column: str | None
    ) -> LabelValue:
        """The class of the last solve with this text; raises `InvalidArgument` if there is none.

        The label as it is if there is no such solve, or if the key may not read it.
        """
        try:
            solve = await self._last_solve(graph, label_column)
        except Forbidden:  # a key that labels and does not read
            return label
        shares = ((solve.result if solve is not None else None) or {}).get("class_shares") or []
        if not shares:
            return label
        by_text: dict[str, LabelValue] = {str(each["label"]): each["label"] for each in shares}
        if str(label) not in by_text:
            detail = (
                f"label must be one of the {len(by_text)} classes of the last solve, which "
                f"show_graph lists, got {label!r}; set new_class to begin another"
            )
            raise InvalidArgument(Refusal(title="Invalid argument", detail=detail))
        return by_text[str(label)]


def told(sentence: str, answer: Answer) -> CallToolResult:
    """A result: a sentence of ours, and the fields, also as JSON for clients that read text."""
    return CallToolResult(
        content=[
            TextContent(type="text", text=sentence),
            TextContent(type="text", text=answer.model_dump_json()),
        ],
        structured_content=answer.model_dump(mode="json"),
    )
