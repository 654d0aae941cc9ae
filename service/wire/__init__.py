"""Wire records: answers of the API, which the server writes and the client reads.

- One definition serves both sides, so that two lists of fields cannot drift apart.
- Standard library only: the client runs in other people's programs, which should start fast.
  Descriptions are metadata of the fields, which pydantic reads when FastAPI documents them.
"""
