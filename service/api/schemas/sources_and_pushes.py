"""Pushes."""

from peewit.service.inbox.inbox_records import PushRecord
from peewit.service.operations.answers import answer_of
from peewit.service.operations.sources_and_files import file_of
from peewit.service.wire.sources_and_pushes import Push


def push_of(push: PushRecord) -> Push:
    """The answer for a push."""
    return answer_of(Push, push, file=None if push.file is None else file_of(push.file))
