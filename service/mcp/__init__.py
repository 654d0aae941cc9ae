"""Tools for agents that speak the Model Context Protocol: `peewit mcp`.

- Tools call `peewit.service.client`, so that keys, scopes, graphs and erased nodes are as over
  HTTP. With an address they call that server; without one the home of PEEWIT_HOME, whose API then
  runs in this process, and its jobs too while no worker is alive.
- Standard input and output only: whoever reached an MCP server over HTTP would act with its one
  key. An agent elsewhere starts its own `peewit mcp` with its own key and the server's address.
- Small answers, as they must fit a model's context: a page has at most a hundred rows, a call waits
  two minutes at most.
- Names of nodes, labels and graphs stand in fields of the answer, never in its sentence, which a
  model may take for an instruction.
"""
