"""The error of a cluster that fails, in a module that needs no dask to be caught from."""


class ClusterError(RuntimeError):
    """The cluster cannot do its part; the graph is as it was, and the same call goes on later."""
