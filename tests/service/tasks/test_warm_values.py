"""What tasks leave for later ones goes by its last use."""

from peewit.service.tasks.warm_graphs import WarmValues


def test_the_longest_unused_is_dropped_first() -> None:
    kept = WarmValues()
    kept["a", "one"], kept["b", "two"], kept["a", "three"] = 1, 2, 3
    assert kept["a", "one"] == 1
    assert kept.get(("c", "one")) is None
    kept.shrink(lambda: len(kept) > 2)
    assert list(kept) == [("a", "three"), ("a", "one")]


def test_a_graph_keeps_few_values_of_one_type() -> None:
    kept = WarmValues()
    kept["b", 0] = 0
    kept["a", "text"] = "of another type"
    for number in range(20):
        kept["a", number] = number
    assert list(kept.all(int, "a").values()) == list(range(12, 20))
    assert list(kept.all(int, "b").values()) == [0]
    assert list(kept.all(str).values()) == ["of another type"]
