"""The experiments of Melacci and Belkin, JMLR 2011: sets, methods, published figures, tables.

`docs.benchmarks.lapsvm_paper` runs them.
"""
