"""Settings of a graph are said once: what callers in Python read is what every other door says."""

from peewit.service.client.calls.graph_settings import ChangeableSettings, NewSettings
from peewit.service.graph_settings import doc_of


def test_the_client_describes_settings_as_other_doors_do() -> None:
    text = " ".join(f"{ChangeableSettings.__doc__} {NewSettings.__doc__}".split())
    assert [name for name in NewSettings.__annotations__ if doc_of(name) not in text] == []
