"""One call from edges to graphs, for notebooks and scripts: nothing is kept on disk."""
