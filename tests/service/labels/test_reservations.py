"""Reservations: never two holders of a node, an end by the database's clock, own ones come back."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import select, update

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database
from peewit.service.database.tables import reservations
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import GraphSettings
from peewit.service.labels.reservations import Reservations
from peewit.service.labels.store import LabelStore

NODES = ["a", "b", "c", "d", "e"]
PEOPLE = ["ann", "bob", "cleo"]


def let_expire(database: Database, *nodes: str) -> None:
    """Put the end of reservations into the past of the database's clock."""
    with database.write() as connection:
        mine = reservations.c.node.in_(nodes)
        connection.execute(update(reservations).where(mine).values(expires_at=now(-3600)))


def reserve(
    store: Reservations, graph_id: str, who: str, *nodes: str, column: str = ""
) -> list[str]:
    """The nodes that somebody has got."""
    held = store.reserve(graph_id, nodes, column=column, holder=who, strategy="random", seconds=600)
    return [each.node for each in held]


def test_a_node_is_one_persons_until_it_is_given_back_labeled_or_time_is_out(
    database: Database, graph_id: str
) -> None:
    store, labels = Reservations(database), LabelStore(database)
    assert reserve(store, graph_id, "ann", "c", "a", "b") == ["c", "a", "b"]
    assert reserve(store, graph_id, "bob", "a", "d", "b") == ["d"]
    assert reserve(store, graph_id, "bob", "a", column="size") == ["a"]  # another question
    assert store.of_others(graph_id, "bob") == {"a", "b", "c"}
    assert store.give_back(graph_id, ["a", "d"], "ann") == 1  # d is not hers
    assert reserve(store, graph_id, "bob", "a", "b", "d") == ["a", "d"]
    let_expire(database, "b")
    assert store.of_others(graph_id, "bob") == {"c"}
    assert [each.node for each in store.own(graph_id, "ann")] == ["c"]
    assert reserve(store, graph_id, "bob", "b") == ["b"]
    labels.put(graph_id, ["c"], ["x"])
    assert store.own(graph_id, "ann") == []
    assert store.own(graph_id, "bob", column="size") != []
    with pytest.raises(ValueError, match="seconds must be positive, got 0"):
        store.reserve(graph_id, ["a"], holder="ann", strategy="random", seconds=0)


def test_what_is_given_back_after_its_time_was_nobodys(database: Database, graph_id: str) -> None:
    store = Reservations(database)
    reserve(store, graph_id, "ann", "a", "b", "c")
    let_expire(database, "a", "b")
    assert store.give_back(graph_id, ["a", "c"], "ann") == 1
    with database.read() as connection:
        assert set(connection.execute(select(reservations.c.node)).scalars()) == {"b"}


def test_of_many_who_ask_at_once_each_node_goes_to_one(database: Database, graph_id: str) -> None:
    """Each with a store of its own, as API processes have."""
    n_people, nodes = 8, [f"n{each}" for each in range(40)]
    start = Barrier(n_people)

    def ask(person: int) -> list[str]:
        start.wait(30)
        order = nodes[person * 5 :] + nodes[: person * 5]
        got = reserve(Reservations(database), graph_id, f"p{person}", *order[:15])
        return got + reserve(Reservations(database), graph_id, f"p{person}", *reversed(nodes))

    with ThreadPoolExecutor(n_people) as pool:
        found = list(pool.map(ask, range(n_people)))
    held = [{*each} for each in found]
    assert sum(map(len, held)) == len(nodes)
    assert set().union(*held) == set(nodes)


class Holders(RuleBasedStateMachine):
    """Reservations beside a dictionary of holders, with a clock that the test moves."""

    database: Database

    @initialize()
    def begin(self) -> None:
        self.graph_id = (
            Catalog(self.database)
            .create(GraphSettings(name=f"g{len(Catalog(self.database).list())}"))
            .id
        )
        self.store, self.labels = Reservations(self.database), LabelStore(self.database)
        self.holder: dict[str, str] = {}

    @rule(who=st.sampled_from(PEOPLE), nodes=st.lists(st.sampled_from(NODES), unique=True))
    def reserve(self, who: str, nodes: list[str]) -> None:
        free = [each for each in nodes if self.holder.get(each, who) == who]
        assert reserve(self.store, self.graph_id, who, *nodes) == free
        self.holder |= dict.fromkeys(free, who)

    @rule(who=st.sampled_from(PEOPLE), nodes=st.sets(st.sampled_from(NODES)))
    def give_back(self, who: str, nodes: set[str]) -> None:
        mine = {each for each in nodes if self.holder.get(each) == who}
        assert self.store.give_back(self.graph_id, nodes, who) == len(mine)
        for each in mine:
            del self.holder[each]

    @rule(node=st.sampled_from(NODES))
    def expire(self, node: str) -> None:
        let_expire(self.database, node)
        self.holder.pop(node, None)

    @rule(node=st.sampled_from(NODES))
    def label(self, node: str) -> None:
        self.labels.put(self.graph_id, [node], ["x"])
        self.holder.pop(node, None)

    @invariant()
    def each_node_has_one_holder(self) -> None:
        if not hasattr(self, "store"):
            return
        for who in PEOPLE:
            own = {each.node for each in self.store.own(self.graph_id, who)}
            others = self.store.of_others(self.graph_id, who)
            assert own == {node for node, holder in self.holder.items() if holder == who}
            assert others == set(self.holder) - own


@pytest.mark.slow
def test_no_node_ever_has_two_holders(database: Database) -> None:
    machine = type("Machine", (Holders,), {"database": database})
    checks = [HealthCheck.too_slow]
    with_few = settings(max_examples=6, stateful_step_count=20, suppress_health_check=checks)
    machine.TestCase.settings = with_few
    machine.TestCase("runTest").runTest()
