"""Operations: what may be asked of Peewit, each said once.

An operation is a plain function on a home. Its signature says what it takes, in words that stand
once: REST routes, client calls, commands and reference pages derive from it
(`peewit.service.api.operation_routes`, `peewit.service.cli.operation_commands`, and the calls of
`peewit.service.client.calls` that `tests.goldens` generates). One file holds one subject.
"""
