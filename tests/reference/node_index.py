"""The node index as a dictionary: external id -> number of ids seen before it."""

from collections.abc import Hashable, Sequence


class DictIndex:
    """Twin of ``peewit.streaming.nodes.index.NodeIndex`` without a disk."""

    def __init__(self) -> None:
        self.ids: list[Hashable | None] = []

    def map(self, src: Sequence[Hashable], dst: Sequence[Hashable]) -> tuple[list[int], list[int]]:
        """Number both endpoints of every row, new ones in order of appearance."""
        known = {node: number for number, node in enumerate(self.ids)}
        u, v = [], []
        for row in zip(src, dst, strict=True):
            for node, numbers in zip(row, (u, v), strict=True):
                if node not in known:
                    known[node] = len(self.ids)
                    self.ids.append(node)
                numbers.append(known[node])
        return u, v

    def lookup(self, nodes: Sequence[Hashable]) -> list[int]:
        """Numbers of nodes, -1 where unknown."""
        return [
            self.ids.index(node) if node is not None and node in self.ids else -1 for node in nodes
        ]

    def erase(self, numbers: Sequence[int]) -> None:
        """Forget ids; their numbers are not given again."""
        for number in numbers:
            self.ids[number] = None
