"""Tools for agents that speak the Model Context Protocol: `peewit mcp`.

Decisions that shaped it:

A client among others
    Tools call `peewit.service.client`, so that keys, scopes, graphs and erased nodes are what they
    are over HTTP. With an address they speak to that server; without one to the home of
    PEEWIT_HOME, whose API then runs in this process, and jobs too while no worker is alive.

Standard input and output only
    Whoever reaches an MCP server over HTTP would act with the one key that it holds. An agent that
    is elsewhere starts its own `peewit mcp` with a key of its own and the address of the server.

Small answers
    A page has at most a hundred rows, a call waits two minutes at most: what does not fit the
    context of a model is of no use to it.

Words of others are data
    Names of nodes, labels and graphs stand in fields of the answer, never in its sentence, which a
    model may take for an instruction.
"""
