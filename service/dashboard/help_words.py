"""Help words: what the first pages cannot do without, as the glossary of the docs says it."""

from collections.abc import Mapping
from typing import Final

WORDS: Final[Mapping[str, str]] = {
    "graph": "Things and what joins them: nodes and edges.",
    "node": "One thing of a graph, such as an account, a paper or a device, named by its id.",
    "edge": "A pair of nodes that have something to do with each other. A weight says how much.",
    "label": "What is known of a node, given by somebody or a file: a class, or a number.",
    "class": "One of the values that labels may have, such as fraud and ok.",
    "prediction": "What a model says of a node: the class that it most likely has, and how likely.",
    "probability": "How often such a prediction is right: of those at 0.8, about 80 of 100.",
    "feature": "A column that describes nodes, such as an age or a country.",
    "model": "What predicts labels; a *solver* solves equations.",
    "job": "Work that goes on while you do something else, such as to predict.",
    "map": "A picture of a graph: a point for each node, neighbors near each other.",
}
"""At most twelve, so that a first visit meets no more."""

PAGES: Final[Mapping[str, tuple[str, str]]] = {
    "start": (
        "Start with your files",
        "Send tables. The page says what they hold, and makes a graph once you agree.",
    ),
    "new-graph": ("New graph", "Make an empty graph, then bring edges and labels one by one."),
    "graph": (
        "Graph",
        "The map, and how large the graph is. The rest is under More about this graph.",
    ),
    "edges": (
        "Edges",
        "Send a file of edges, or name a place. Every row is checked before it is taken.",
    ),
    "features": (
        "Features",
        "Send a table with a row for each node. The page says how it reads each column.",
    ),
    "labels": (
        "Labels",
        "Send a file of labels or put them by hand, look for them, take them back.",
    ),
    "predictions": (
        "Predictions",
        "What each node most likely is, and how sure that is. Download the table here.",
    ),
    "suspects": ("Suspects", "The nodes most likely of one class, with reasons."),
    "label-next": ("Label next", "The nodes whose label would help most, one after another."),
    "jobs": ("Jobs", "What runs, waits and has ended. Predict with another model here."),
    "models": ("Models", "Which model to take, by five questions."),
}
"""What each page is for, by the last part of its address."""


def page_of(path: str) -> str:
    """The page, by its address, whose help is meant; '' where there is none of its own."""
    parts = path.strip("/").split("/")
    if parts[0] == "graphs" and len(parts) == 2:
        return "graph"
    named = parts[2] if parts[0] == "graphs" and len(parts) > 2 else parts[0]
    named = {"node": "predictions"}.get(named, named)
    return named if named in PAGES else ""
