"""Wire records: answers of the API, which the server writes and the client reads.

One definition for both
    The server kept pydantic models and the client kept dataclasses of the same fields, and two
    lists of fields drift apart. Here is the one list; what else each side needs stands with it.

Standard library only
    The client runs in programs of others, which should start fast. Descriptions are metadata of the
    fields, which pydantic reads when FastAPI documents them.
"""
