"""Opinions of a table of labels in which nodes have several rows, each of somebody.

The first row of a node is its label event and each row is an opinion about it, so that the label
which stands, agreement and disagreements are those of people who had answered one after the other.
A row without an annotator has one of its own: the first, second, ... opinion of the node.
"""

from collections.abc import Sequence


def rows_of_nodes(
    nodes: Sequence[str], annotators: Sequence[str | None]
) -> dict[str, dict[str | None, int]]:
    """The rows of each node that count, in order, by annotator: of each the last one.

    The annotator of a node's only row may be None.
    """
    rows: dict[str, list[int]] = {}
    for row, node in enumerate(nodes):
        rows.setdefault(node, []).append(row)
    of_nodes: dict[str, dict[str | None, int]] = {}
    for node, own in rows.items():
        if len(own) == 1:
            of_nodes[node] = {annotators[own[0]]: own[0]}
            continue
        of_node = of_nodes[node] = {}
        for number, row in enumerate(own, 1):
            name = annotators[row] or f"opinion {number}"
            of_node.pop(name, None)  # whoever answers again withdraws the answer before
            of_node[name] = row
    return of_nodes
