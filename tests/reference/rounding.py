"""Dependent rounding with trails that are lists of edges: the obvious twin of the kernel."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.reference.sampling import coin, counter_hash, stream_key


@dataclass(eq=False)
class _Trail:
    """Edges in the order in which they hang together, first one open at ``head``."""

    number: int
    oldest: int
    edges: list[int]
    head: int | None
    tail: int | None

    def turn(self, node: int) -> None:
        """Let the trail end at ``node``."""
        if self.tail != node:
            self.edges.reverse()
            self.head, self.tail = self.tail, self.head


def trails(u: Sequence[int], v: Sequence[int], odd: Sequence[int]) -> list[_Trail]:
    """Trails through the edges ``odd``, linked at every node two by two in the order given."""
    waiting: dict[int, _Trail] = {}
    finished: list[_Trail] = []
    number = 0
    for edge in odd:
        first, second = u[edge], v[edge]
        at_first, at_second = waiting.pop(first, None), waiting.pop(second, None)
        if at_first is None and at_second is None:
            trail = _Trail(number, edge, [edge], first, second)
            number += 1
            waiting[first] = waiting[second] = trail
        elif at_first is None or at_second is None:
            trail = at_first or at_second
            assert trail is not None
            trail.turn(first if at_first else second)
            trail.edges.append(edge)
            trail.tail = second if at_first else first
            waiting[trail.tail] = trail
        elif at_first is at_second:
            at_first.turn(first)
            at_first.edges.append(edge)
            at_first.head, at_first.tail = None, second
            if len(at_first.edges) % 2:  # an odd cycle goes on at the second node
                waiting[second] = at_first
            else:
                finished.append(at_first)
        else:
            at_first.turn(first)
            at_second.turn(second)
            older = min(at_first, at_second, key=lambda trail: trail.number)
            joined = _Trail(
                older.number,
                older.oldest,
                [*at_first.edges, edge, *reversed(at_second.edges)],
                at_first.head,
                at_second.head,
            )
            open_ends = [node for node in (joined.head, joined.tail) if node is not None]
            waiting |= dict.fromkeys(open_ends, joined)
            if not open_ends:
                finished.append(joined)
    return finished + list(dict.fromkeys(waiting.values()))


def round_dependently(
    u: Sequence[int],
    v: Sequence[int],
    probability: Sequence[float],
    key: Sequence[int],
    n_bits: int,
    seed: int,
    stream: int,
) -> list[bool]:
    """Whether each edge survives."""
    value = []
    for edge_probability, name in zip(probability, key, strict=True):
        exact = edge_probability * 2**n_bits
        below = math.floor(exact)
        value.append(below + (coin(seed, stream, name) < exact - below))
    for bit in range(n_bits):
        odd = [edge for edge in range(len(value)) if value[edge] >> bit & 1]
        for trail in trails(u, v, odd):
            oldest = trail.edges.index(trail.oldest)
            oldest_gives = counter_hash(stream_key(seed, stream), bit, trail.number) & 1
            for place, edge in enumerate(trail.edges):
                gives = (oldest_gives + place - oldest) % 2
                value[edge] += -(2**bit) if gives else 2**bit
    return [edge_value > 0 for edge_value in value]
