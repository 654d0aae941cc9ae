"""Who runs jobs: the worker, its warm children, and what passes between them."""
