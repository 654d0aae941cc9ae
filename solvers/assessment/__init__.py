"""What judges models: cross-validation, grids of hyperparameters judged by it, a bound on error."""
