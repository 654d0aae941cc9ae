"""The whole service under load while its processes are killed, and what must hold afterwards.

`run.crash` starts the processes, has clients work over HTTP (`load`), some of whom take files and
nodes out of the graph again (`retracting`, `forgetting`), kills at random once all have got on
since the last kill (`system`, `progress`), lets the work drain, checks what they were told against
the stores (`checks`, `live_edges`, `forgotten`) and against an undisturbed replay (`replay`).
"""
