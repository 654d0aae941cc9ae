"""`peewit warm`: what image builds call, so that the first job does not wait for a compiler."""

from peewit.service.cli.progress import CompileProgress
from peewit.service.cli.session import AsJson, command_group, echo, print_json, stderr_console
from peewit.service.kernel_warmup import warm
from peewit.solvers.kernels.compilation import n_kept, not_kept, told_of_compilations

app = command_group()


@app.command("warm", hidden=True)
def warm_up(json: AsJson = False) -> None:
    """Compile all kernels, or load them from the cache, and say how long that took."""
    progress = CompileProgress(stderr_console(), lambda: not_kept(n_kept()))
    with progress, told_of_compilations(progress):
        seconds = warm()
    if json:
        print_json({"seconds": round(seconds, 3)})
    else:
        echo(f"kernels ready after {seconds:.1f} s")
