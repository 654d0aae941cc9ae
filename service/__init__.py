"""Processes and people: catalog, labels, jobs, the API and the command line.

Decisions that shaped it: context, decision, consequence.

One database, two kinds of it
    One machine should need no server, several machines need one. SQLAlchemy Core states every query
    once for a SQLite file and for PostgreSQL, and every store is tested on both. What only one of
    them can do is not used.

SQLite as durable as PostgreSQL
    An acknowledged label must outlive a power cut. WAL with ``synchronous=FULL``, and writing
    transactions that begin with BEGIN IMMEDIATE instead of the driver's own BEGIN. Commits cost an
    fsync, writers queue instead of failing, and network file systems are refused.

The database's clock
    Leases are compared by processes on machines whose clocks differ. Every time is an SQL
    expression of the database. Nothing on another machine can shorten or extend a lease.

The graph's row orders what is added to a graph
    Sequences of a database give numbers in the order of asking, not of committing. Whoever adds
    files, labels or jobs locks the row of the graph first. Numbers appear in order, so "all labels
    up to 41" and "all files after 7" mean the same for ever; one graph has one writer at a time.

Fencing, not trust
    A process may be asleep for longer than its lease. A lease carries a token, a job an attempt,
    and both are checked in the transaction that writes. The sleeper's write fails when it wakes
    and another has its place.

Events, not states
    A prediction names the labels it was made from. Labels are appended and never changed. Any
    earlier labeling can be read again, and the table grows with every change.

Schema by migrations only
    Processes start in any order on a fresh or an old database. Whoever comes first migrates under a
    lock, in one transaction; the others wait. A database of a newer version is refused, and one of
    before the first release.
"""
