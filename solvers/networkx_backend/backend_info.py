"""What networkx shows of this backend. It imports nothing: networkx reads it at every start."""

from typing import Any

_MAX_ITER = (
    "Limit on the iterations of the linear solver, at least 1; a warning says where it was "
    "reached. Nodes whose best classes the solver cannot tell apart are decided by so many steps "
    "of networkx's own iteration."
)
_FURTHER = {"rtol : float, default 1e-10": "Relative residual asked of the linear solver."}


def get_info() -> dict[str, Any]:
    """The backend's functions and their documentation, in networkx's format."""
    return {
        "backend_name": "peewit",
        "project": "peewit",
        "package": "peewit",
        "short_summary": (
            "Labels of nodes by linear solvers, where networkx repeats steps until they settle."
        ),
        "functions": {
            "harmonic_function": {
                "additional_docs": "Solves for the harmonic function. " + _MAX_ITER,
                "additional_parameters": _FURTHER,
            },
            "local_and_global_consistency": {
                "additional_docs": "Solves for the limit; alpha must lie in [0, 1). " + _MAX_ITER,
                "additional_parameters": _FURTHER,
            },
        },
    }
