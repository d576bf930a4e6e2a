"""What an operator may get wrong, said in one line: a traceback is for what nobody expected."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError
from pydantic_settings import SettingsError
from sqlalchemy.exc import ArgumentError, DBAPIError

from corrald.home import HomeUnusable
from store.master_keys import BadKeyFile
from store.signing import SigningKeyUnusable
from worker.service import CannotServe

SETTINGS = "Settings"
"""How the names of all our classes of settings end."""


class Refusal(Exception):
    """The message names what is wrong and, where it can, what helps."""


@contextmanager
def explained() -> Iterator[None]:
    """Turn what the environment, the options or the database got wrong into a Refusal; let all else through.

    Raises:
        Refusal: the operator can mend it.
    """
    try:
        yield
    except (BadKeyFile, CannotServe, HomeUnusable, SettingsError, SigningKeyUnusable) as error:
        raise Refusal(str(error)) from error
    except ValidationError as error:
        if not error.title.endswith(SETTINGS):
            raise
        raise Refusal("; ".join(_setting_text(str(said["loc"][0]), said["msg"]) for said in error.errors())) from error
    except ArgumentError as error:
        raise Refusal(
            "the database's URL is not one of PostgreSQL or SQLite, as docs/settings.md shows them"
        ) from error
    except DBAPIError as error:
        words = "; ".join(line.strip() for line in str(error.orig).splitlines())
        raise Refusal(f"the database cannot be used: {words} (see: corrald doctor)") from error


def _setting_text(name: str, why: str) -> str:
    return f"CORRAL_{name.upper()}: {why}"
