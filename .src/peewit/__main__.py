"""`python -m peewit`: the same as `peewit`."""

from peewit.service.cli import main

if __name__ == "__main__":
    main()
