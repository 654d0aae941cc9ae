"""Tasks: the parameters of each kind of job, how it runs, and messages of worker and child."""
