"""`python -m service.cli`: the same as `peewit`."""

from service.cli import main

if __name__ == "__main__":
    main()
