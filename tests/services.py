"""What the tests need of the machine, and what happens when it is not there."""

import os
import shutil
from functools import cache

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

REQUIRED = os.environ.get("CORRAL_REQUIRE_SERVICES") == "1"
"""In CI nothing may be skipped for want of a service."""
POSTGRES_URL = os.environ.get("CORRAL_TEST_POSTGRES_URL", "")


def missing(reason: str) -> None:
    """Skip the test for want of a service, or fail it where all services must be there."""
    if REQUIRED:
        pytest.fail(f"{reason}, and CORRAL_REQUIRE_SERVICES=1 asks for it")
    pytest.skip(reason)


@cache
def has_postgres() -> bool:
    """Whether a PostgreSQL was named and answers."""
    if not POSTGRES_URL:
        return False
    engine = create_engine(_psycopg(POSTGRES_URL))
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
    except OperationalError:
        return False
    finally:
        engine.dispose()
    return True


def need_postgres() -> str:
    """The URL of a PostgreSQL in which databases may be made."""
    if not has_postgres():
        missing("no PostgreSQL: set CORRAL_TEST_POSTGRES_URL to one whose user may create databases")
    return _psycopg(POSTGRES_URL)


def need_program(name: str) -> str:
    """The path of a program of the host."""
    path = shutil.which(name)
    if path is None:
        missing(f"no {name} on this machine")
    return str(path)


def _psycopg(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)
