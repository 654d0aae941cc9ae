"""How the graph arrives and stays small.

Decisions, each with its reason or consequence:

- A file is the unit of commitment. A bad row late in a long file must leave no trace, so two
  checkpoints are kept, the newest and the last at a file boundary, and what followed is replayed.
- Blocks are numbered over the good files alone, and coins are hashes of (seed, block, row). A run
  that was killed, a run with other threads and a run that met bad files give the same edges.
- One coin per edge instead of binomial copies. Bridges stay for certain and the variance is never
  larger (section B.6).
- Coins lean against what earlier ones left at a node. With independent ones some node of n has bad
  luck with all of its coins, and the guard against that, ln(n), is most of the records. Surpluses
  are state: they go from block to block and into checkpoints.
- Resistances must be right across every cut, not only on average. A small cut is a small part of
  every right-hand side, so solves to a residual of 1e-2 can score its edges at a tenth of their
  resistance. So the embedding bounds its error in every direction, and covers only what degrees do
  not give exactly.
- Where a random walk mixes soon, return probabilities bound every resistance within a few percent
  and no system is solved. An embedding is made where they do not.
- Features are written anew for each version, aligned with the nodes, and the version before stays
  for a while: solvers map rows that never change, and adding a row costs a copy of all.
- The stream never looks at labels or models. ``peewit.solvers.models`` is out of its reach by
  contract.
- ``sparsify``, for notebooks, is loaded at first use: who only wants blocks need not wait for
  kernels, and processes set numba's environment before.
"""

from typing import TYPE_CHECKING

from peewit.solvers.late_modules import late_names

if TYPE_CHECKING:
    from peewit.streaming.calls.relations_call import sparsify_relations
    from peewit.streaming.calls.sparsified import Sparsified, SparsifiedRelations
    from peewit.streaming.calls.sparsify_call import sparsify

__all__ = ["Sparsified", "SparsifiedRelations", "sparsify", "sparsify_relations"]

__getattr__, __dir__ = late_names(
    __name__,
    {
        "Sparsified": "peewit.streaming.calls.sparsified",
        "SparsifiedRelations": "peewit.streaming.calls.sparsified",
        "sparsify": "peewit.streaming.calls.sparsify_call",
        "sparsify_relations": "peewit.streaming.calls.relations_call",
    },
)
