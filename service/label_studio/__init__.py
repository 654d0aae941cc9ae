"""Label Studio: nodes as tasks for its annotators, and their answers as labels.

Its formats and nothing of Peewit's stores, so other programs may use it beside the client. The
standard library is enough, as the formats are JSON and a small XML.

Context: people who label texts and pictures have Label Studio, with accounts, queues and reviews.
Decision: files in its documented formats, which every edition imports and exports, not its HTTP
API, which differs between editions and wants a token. Consequence: two commands, and a person or a
script that carries two files.

The formats: https://labelstud.io/guide/tasks (tasks), https://labelstud.io/guide/predictions
(predictions), https://labelstud.io/tags/choices (the labeling configuration) and
https://labelstud.io/guide/export (JSON and JSON_MIN).
"""
