"""The incremental spectral sparsifier: records, coins, resistances, merges."""
