"""The API as uvicorn asks for it, in the command's own process or in one of several children."""

from fastapi import FastAPI

from peewit.service.dashboard.api_with_dashboard import create_app
from peewit.service.logs import configure_logging
from peewit.service.process_lifetime import stop_with_parent
from peewit.service.settings import Settings
from peewit.service.tracing.spans import start_tracing


def application() -> FastAPI:
    """The API; a child process logs as its parent does and ends with it."""
    settings = Settings()
    configure_logging(settings.log_level, settings.log_format)
    start_tracing("api")
    stop_with_parent()
    return create_app(settings)
