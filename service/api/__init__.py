"""REST API: HTTP in and out of the home, and nothing that a store should decide.

- Context: requests wait for disk and database. Decision: routes are plain functions that run in
  threads; only waiting and receiving bodies are coroutines. Consequence: the loop never blocks.
- Context: errors must read alike everywhere. Decision: `errors` maps exception classes to RFC 9457
  problems, and nothing else names an error code. Consequence: a new exception is one line there.
- Context: bodies may be large. Decision: they are counted and spooled to disk while they arrive,
  answers leave in batches. Consequence: memory does not grow with either.
"""
