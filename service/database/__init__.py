"""Rows: the tables, the engine that opens them, migrations, leases, and a cache of reads."""
