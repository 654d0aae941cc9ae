"""Labels proven to be those of all edges, from an answer on a sparsifier and passes over them."""
