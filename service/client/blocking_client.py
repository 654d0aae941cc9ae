"""The client that blocks, and how it carries out the steps of a call."""

import time
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from peewit.service.client.call_steps import (
    Answer,
    Call,
    Errand,
    Flow,
    Item,
    NextPiece,
    Pause,
    Request,
    Steps,
)
from peewit.service.client.calls import edges as edges_calls
from peewit.service.client.calls import erasures as erasures_calls
from peewit.service.client.calls import events as events_calls
from peewit.service.client.calls import feature_sets as feature_sets_calls
from peewit.service.client.calls import graph_settings as settings_calls
from peewit.service.client.calls import graphs as graphs_calls
from peewit.service.client.calls import health as health_calls
from peewit.service.client.calls import horizon_and_repairs as leaving_calls
from peewit.service.client.calls import jobs as jobs_calls
from peewit.service.client.calls import judging as judging_calls
from peewit.service.client.calls import label_tables as label_tables_calls
from peewit.service.client.calls import labels as labels_calls
from peewit.service.client.calls import maps as maps_calls
from peewit.service.client.calls import opinions as opinions_calls
from peewit.service.client.calls import prediction_tables as prediction_tables_calls
from peewit.service.client.calls import predictions as predictions_calls
from peewit.service.client.calls import pushed_tables as pushed_tables_calls
from peewit.service.client.calls import server as server_calls
from peewit.service.client.calls import snapshots as snapshots_calls
from peewit.service.client.calls import solving as solving_calls
from peewit.service.client.calls import sources_and_files as sources_calls
from peewit.service.client.calls import submissions as submissions_calls
from peewit.service.client.calls import suggestions as suggestions_calls
from peewit.service.client.options import Connected
from peewit.service.client.signatures import as_method

P = ParamSpec("P")
T = TypeVar("T")


class _Run(Steps[T]):
    """A call that is carried out: `to_item` again and again until there is none, then `answer`."""

    def __init__(self, client: "Client", call: Call[T] | Flow[T]) -> None:
        super().__init__(call, client.retries)
        self._client = client
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._hang_up()

    def to_item(self) -> Item[T] | None:
        outcome: object = None
        error: httpx.HTTPError | None = None
        while True:
            step = self.after(outcome, error)
            if step is None or isinstance(step, Item):
                return step
            outcome = error = None
            try:
                outcome = self._outcome(step)
            except httpx.HTTPError as failure:
                error = failure

    def _outcome(self, step: Errand) -> object:
        match step:
            case Request():
                return self._sent(step)
            case NextPiece():
                return next(self._pieces, None)
            case Pause(seconds=seconds):
                time.sleep(seconds)
                return None

    def _sent(self, request: Request) -> Answer:
        self._hang_up()
        response = self._response = self._client._send(request)
        if request.is_streamed and response.is_success:
            self._pieces = response.iter_bytes()
            content = b""
        else:
            content = response.read()
        return Answer(status=response.status_code, headers=response.headers, content=content)

    def _hang_up(self) -> None:
        if self._response is not None:
            self._response.close()


def _method(call: Callable[P, Call[T]]) -> Callable[Concatenate["Client", P], T]:
    """A method that makes a call and returns its answer."""

    @wraps(call)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with _Run(self, call(*args, **kwargs)) as run:
            run.to_item()
            return run.answer

    return as_method(method, call)


def _iterator(flow: Callable[P, Flow[T]]) -> Callable[Concatenate["Client", P], Iterator[T]]:
    """A method that makes a call and iterates over its answers."""

    @wraps(flow)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        with _Run(self, flow(*args, **kwargs)) as run:
            while (item := run.to_item()) is not None:
                yield item.value

    return as_method(method, flow)


class Client(Connected[httpx.BaseTransport]):
    """A Peewit server, from a program that waits for each answer.

    Lists that come in pages and tables that come in batches are iterators, which fetch when they
    are asked for the next. Parameters are those of `peewit.service.client.options.Connected`.
    """

    def _open(self, **options: Any) -> None:
        self._http = httpx.Client(**options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are open; a closed client makes no calls."""
        self._http.close()

    def _send(self, request: Request) -> httpx.Response:
        """The beginning of an answer, whose body is still to be read."""
        content = None if request.body is None else request.body.pieces()
        arguments = {"content": content, **self._arguments(request)}
        return self._http.send(self._http.build_request(**arguments), stream=True)

    create_graph = _method(settings_calls.create_graph)
    graphs = _method(graphs_calls.graphs)
    graph = _method(graphs_calls.graph)
    update_graph = _method(settings_calls.update_graph)
    delete_graph = _method(graphs_calls.delete_graph)
    snapshots = _method(graphs_calls.snapshots)
    relations = _method(graphs_calls.relations)
    expire = _method(leaving_calls.expire)
    repair = _method(leaving_calls.repair)
    horizon = _method(leaving_calls.horizon)
    repair_state = _method(leaving_calls.repair_state)

    push_edges = _method(pushed_tables_calls.push_edges)
    delete_edges = _method(pushed_tables_calls.delete_edges)
    push = _method(edges_calls.push)
    add_source = _method(sources_calls.add_source)
    sources = _method(sources_calls.sources)
    remove_source = _method(sources_calls.remove_source)
    retry_source = _method(sources_calls.retry_source)
    retract_file = _method(sources_calls.retract_file)
    retry_file = _method(sources_calls.retry_file)
    files = _iterator(sources_calls.files)
    file = _method(sources_calls.file)

    erase = _method(erasures_calls.erase)
    erasure = _method(erasures_calls.erasure)
    erasures = _method(erasures_calls.erasures)

    put_features = _method(pushed_tables_calls.put_features)
    add_features = _method(pushed_tables_calls.add_features)
    features = _method(feature_sets_calls.features)
    feature_set = _method(feature_sets_calls.feature_set)
    filtered_features = _method(feature_sets_calls.filtered_features)
    stream_filtered_features = _iterator(feature_sets_calls.stream_filtered_features)
    download_filtered_features = _method(feature_sets_calls.download_filtered_features)

    put_labels = _method(label_tables_calls.put_labels)
    labels = _method(labels_calls.labels)
    delete_labels = _method(label_tables_calls.delete_labels)
    label_columns = _method(labels_calls.label_columns)

    submit_solve = _method(solving_calls.submit_solve)
    submit_solve_columns = _method(submissions_calls.submit_solve_columns)
    submit_tune = _method(solving_calls.submit_tune)
    submit_certify = _method(solving_calls.submit_certify)
    submit_knn = _method(solving_calls.submit_knn)
    submit_embed = _method(solving_calls.submit_embed)
    submit_filter = _method(solving_calls.submit_filter)
    submit_map = _method(solving_calls.submit_map)
    estimate = _method(solving_calls.estimate)
    jobs = _iterator(jobs_calls.jobs)
    job = _method(jobs_calls.job)
    cancel = _method(jobs_calls.cancel)
    wait = _method(solving_calls.wait)

    events = _iterator(events_calls.events)

    solve = _method(solving_calls.solve)
    solve_columns = _method(solving_calls.solve_columns)

    predictions = _method(prediction_tables_calls.predictions)
    predictions_if_changed = _method(prediction_tables_calls.predictions_if_changed)
    stream_predictions = _iterator(prediction_tables_calls.stream_predictions)
    download_predictions = _method(prediction_tables_calls.download_predictions)
    prediction = _method(prediction_tables_calls.prediction)
    look_up = _iterator(prediction_tables_calls.look_up)
    prediction_rows = _method(predictions_calls.prediction_rows)
    abstention = _method(judging_calls.abstention)
    sets = _method(judging_calls.sets)
    doubtful_labels = _method(judging_calls.doubtful_labels)
    reasons = _method(judging_calls.reasons)
    threshold = _method(judging_calls.threshold)
    evaluate = _method(prediction_tables_calls.evaluate)
    predict = _method(prediction_tables_calls.predict)
    sparsifier = _method(prediction_tables_calls.sparsifier)
    snapshot_edges = _method(snapshots_calls.snapshot_edges)
    stream_snapshot_edges = _iterator(snapshots_calls.stream_snapshot_edges)
    download_snapshot_edges = _method(snapshots_calls.download_snapshot_edges)

    suggestions = _method(suggestions_calls.suggestions)
    second_opinions = _method(opinions_calls.second_opinions)
    give_back = _method(opinions_calls.give_back)
    put_opinions = _method(opinions_calls.put_opinions)
    take_opinion_back = _method(opinions_calls.take_opinion_back)
    opinions = _method(labels_calls.opinions)
    agreement = _method(opinions_calls.agreement)
    disagreements = _method(opinions_calls.disagreements)
    decide = _method(opinions_calls.decide)

    map = _method(maps_calls.map)
    map_tile = _method(maps_calls.map_tile)

    models = _method(server_calls.models)
    version = _method(server_calls.version)
    is_alive = _method(health_calls.is_alive)
    is_ready = _method(health_calls.is_ready)
    metrics = _method(health_calls.metrics)
