"""Python client of a Peewit server that runs elsewhere.

    with Client("https://peewit.example", api_key=key) as peewit:
        peewit.push_edges("friends", table, wait=None)
        peewit.put_labels("friends", {"ann": "west", "xia": "east"})
        print(peewit.solve("friends").table)

`Client` blocks, `AsyncClient` has the same methods for coroutines. Decisions that shaped it:

One definition for both
    Two copies of fifty methods drift apart. Each call is a generator that yields what is to be done
    and is sent what it came to (`peewit.service.client.call_steps`); two drivers of a few lines
    carry it out. Paths, retries, errors and reading are written once and tested without a network.

Nothing of the server
    It runs in programs of others, which should start fast. It imports httpx, pyarrow,
    `peewit.service.tables.formats`, `peewit.solvers.interchange` and `peewit.service.wire`, the
    records that the server writes, and nothing else of Peewit; a contract and a test say so.
    pydantic comes with the first answer.

Records, not handles
    A graph or a job that holds its client could belong to either of the two and could not be kept.
    Answers are values, methods stand on the client and take names and ids.

Only what is safe is repeated
    A lost answer does not say whether the call was taken. Reads are repeated, and what replaces or
    has a key: pushes and jobs get one unless they are given one. The rest is repeated only where
    the server cannot have seen it, or has said that it took nothing.
"""

from peewit.service.client.async_client import AsyncClient
from peewit.service.client.blocking_client import Client
from peewit.service.client.call_steps import Retries
from peewit.service.client.errors import (
    BodyTooLarge,
    Conflict,
    DoesNotFit,
    Forbidden,
    GraphExists,
    GraphNotFound,
    InvalidArgument,
    JobCancelled,
    JobFailed,
    JobNotFound,
    NodeNotFound,
    NotFound,
    NotYet,
    PeewitError,
    PredictionsNotFound,
    RateLimited,
    ServerFault,
    ServerUnavailable,
    ServerUnreachable,
    StillWaiting,
    Unauthorized,
    UnknownNodes,
)
from peewit.service.client.further_answers import JobEvent, Predictions, Refusal, Sparsifier
from peewit.service.wire.erasures import Erasure
from peewit.service.wire.features import Features, FeatureSet
from peewit.service.wire.graphs import Certificate, Graph, GraphDetails, RepairState, Snapshot
from peewit.service.wire.jobs import Estimate, Job
from peewit.service.wire.labels import LabelReceipt
from peewit.service.wire.predictions import (
    Lookup,
    NodePrediction,
    Prediction,
    PredictionRows,
    Suggestion,
    Suggestions,
)
from peewit.service.wire.server import Model, Version
from peewit.service.wire.sources_and_pushes import File, Push, Source

__all__ = [
    "AsyncClient",
    "BodyTooLarge",
    "Certificate",
    "Client",
    "Conflict",
    "DoesNotFit",
    "Erasure",
    "Estimate",
    "FeatureSet",
    "Features",
    "File",
    "Forbidden",
    "Graph",
    "GraphDetails",
    "GraphExists",
    "GraphNotFound",
    "InvalidArgument",
    "Job",
    "JobCancelled",
    "JobEvent",
    "JobFailed",
    "JobNotFound",
    "LabelReceipt",
    "Lookup",
    "Model",
    "NodeNotFound",
    "NodePrediction",
    "NotFound",
    "NotYet",
    "PeewitError",
    "Prediction",
    "PredictionRows",
    "Predictions",
    "PredictionsNotFound",
    "Push",
    "RateLimited",
    "Refusal",
    "RepairState",
    "Retries",
    "ServerFault",
    "ServerUnavailable",
    "ServerUnreachable",
    "Snapshot",
    "Source",
    "Sparsifier",
    "StillWaiting",
    "Suggestion",
    "Suggestions",
    "Unauthorized",
    "UnknownNodes",
    "Version",
]
