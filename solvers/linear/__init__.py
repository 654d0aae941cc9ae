"""Linear functions of large sparse rows: finite Newton, transduction and annealing."""
