"""Pushes for tests of the stores below the one that checks them."""

from peewit.service.inbox.inbox_records import NewPush, PushLimits, PushRecord
from peewit.service.inbox.manifest import Manifest

NO_LIMITS = PushLimits(graph_bytes=10**12, total_bytes=10**12)


def pushed(
    manifest: Manifest, graph_id: str, push: NewPush, limits: PushLimits = NO_LIMITS
) -> PushRecord:
    """One push taken in; raises what it is refused with."""
    (answer,) = manifest.push_log.add(graph_id, [push], limits)
    if isinstance(answer, Exception):
        raise answer
    return answer
