"""Problems (RFC 9457): how the API and commands with ``--json`` describe an exception.

Titles stand by class name, so that a failing command loads no class that it never met.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

_TITLES: Final = {
    "UsageError": "Wrong usage",  # of the command line
    "ClientDisconnect": "Body broke off",
    "HostNotOne": "Host missing or doubled",
    "BodyTooSlow": "Body too slow",
    "KeyMissing": "Key missing",
    "KeyRefused": "Key refused",
    "KeyRevoked": "Key refused",
    "ScopeMissing": "Scope missing",
    "GraphNotFound": "Graph not found",
    "SourceNotFound": "Source not found",
    "FileNotListed": "File not found",
    "RetractionRefused": "File cannot be retracted",
    "HorizonRefused": "Graph has no window",
    "RepairRefused": "Graph cannot be repaired",
    "RawEdgesMovedOn": "Raw edges moved on",
    "PushNotFound": "Push not found",
    "ErasureNotFound": "Erasure not found",
    "FeatureSetNotFound": "Feature set not found",
    "SnapshotNotFound": "Snapshot not found",
    "FeaturesNotFound": "Features not found",
    "UnknownJob": "Job not found",
    "PredictionsNotFound": "Predictions not found",
    "MapNotFound": "Map not found",
    "NodeNotFound": "Node not found",
    "NodeNotPredicted": "Node newer than snapshot",
    "FormatNotOffered": "Format not offered",
    "GraphExists": "Graph exists",
    "GraphConflict": "Setting is fixed",
    "GraphOutdated": "Graph of an earlier version",
    "TooManyGraphs": "Too many graphs",
    "TooManySources": "Too many sources",
    "NoSnapshot": "No snapshot yet",
    "NoEmbedding": "No embedding yet",
    "EmbeddingFailed": "Embedding failed",
    "NoFeatures": "No features yet",
    "ConnectedBefore": "Edges from features already",
    "JobNotSucceeded": "Job has not succeeded",
    "NotCrossValidated": "No labels left out",
    "SetsNotKept": "No sets kept",
    "ReasonsNotKept": "No reasons kept",
    "IdempotencyConflict": "Idempotency-Key in use",
    "BodyTooLarge": "Body too large",
    "TableTooLarge": "Table too large",
    "BodyTypeUnknown": "Body type unknown",
    "BadFeatures": "Features break the contract",
    "BadEdges": "Edges break the contract",
    "BadUpload": "Invalid content",
    "BadLabels": "Labels break the contract",
    "LabelColumnNotFound": "Label column not found",
    "LabelsRefused": "Unknown nodes",
    "NoMargins": "No margins",
    "NotInductive": "Job predicts no new points",
    "DoesNotFit": "Does not fit the memory",
    "SourceRefused": "Source refused",
    "InvalidArgument": "Invalid argument",
    "RequestValidationError": "Invalid argument",
    "DataError": "Invalid argument",
    "TooManyRequests": "Too many requests",
    "BacklogFull": "Backlog full",
    "TooBusy": "Too busy",
    "NotReady": "Not ready",
    "OperationalError": "Database out of reach",
    "TimeoutError": "Database out of reach",
}


def title_of(kind: type[Exception]) -> str:
    """The title of an exception class: its own, or that of the first base which has one."""
    names = (each.__name__ for each in kind.__mro__)
    return next((_TITLES[name] for name in names if name in _TITLES), "Failed")


def type_of(title: str) -> str:
    """The type of a problem: ``urn:peewit:problem:`` and the words of its title."""
    words = re.sub(r"[^a-z]+", "-", title.lower()).strip("-")
    return f"urn:peewit:problem:{words}"


def details_of(error: Exception) -> Mapping[str, Any]:
    """The text of an exception, its argument, and its ``problem_members``."""
    members = getattr(error, "problem_members", {})
    return {"detail": str(error), "argument": getattr(error, "argument", None), **members}
