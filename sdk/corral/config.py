"""Which server, and with what key: arguments first, then the environment, then the file that `corral login` wrote."""

import json
import os
import stat
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from corral.errors import NotConfigured
from platformdirs import user_config_path

HOW = "run `corral login`, or set CORRAL_URL and CORRAL_KEY"


@dataclass(frozen=True, slots=True)
class Settings:
    """A server, and a key for it."""

    url: str
    key: str = field(repr=False)


def config_file() -> Path:
    """Where `corral login` writes."""
    return user_config_path("corral") / "config.toml"


def find_settings(
    url: str | None = None,
    key: str | None = None,
    environ: Mapping[str, str] = os.environ,
    file: Path | None = None,
) -> Settings:
    """The settings in force. The file's key goes to the file's server and to no other.

    Raises:
        NotConfigured: no server or no key is known, or the file is not fit for use; the help says what to do.
    """
    url = url or environ.get("CORRAL_URL")
    key = key or environ.get("CORRAL_KEY")
    if url and key:
        return checked(url, key)
    saved = read_settings(file or config_file())
    if saved is None or (url and checked(url, "-").url != saved.url and not key):
        raise NotConfigured(f"no {'key' if url else 'server'} is configured", HOW)
    return checked(url or saved.url, key or saved.key)


def checked(url: str, key: str) -> Settings:
    """The settings, in one form.

    Raises:
        NotConfigured: the URL is none, or the key could not stand in a header.
    """
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise NotConfigured(f"{url!r} is not a URL: {error}", HOW) from error
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.query or parsed.fragment:
        raise NotConfigured(f"{url!r} is not the URL of a server", "write it like https://corral.example.org")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise NotConfigured("the key holds characters that no key has", "copy it again, whole and alone")
    return Settings(str(parsed).rstrip("/"), key)


def read_settings(file: Path) -> Settings | None:
    """What the file holds; None where there is none.

    Raises:
        NotConfigured: others may read it, or it is broken.
    """
    try:
        with file.open("rb") as stream:
            if os.name == "posix" and stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & 0o077:
                raise NotConfigured(f"others may read the key in {file}", f"run: chmod 600 '{file}'")
            saved = tomllib.load(stream)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise NotConfigured(f"{file} cannot be read: {error}", "run `corral login` to write it anew") from error
    url, key = saved.get("url"), saved.get("key")
    if not isinstance(url, str) or not isinstance(key, str):
        raise NotConfigured(f"{file} lacks url or key", "run `corral login` to write it anew")
    return checked(url, key)


def write_settings(settings: Settings, file: Path) -> None:
    """Put the file in place whole, readable by its owner alone from its first instant."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # JSON's strings of printable characters are TOML's too; `checked` let no others in
    text = f"url = {json.dumps(settings.url)}\nkey = {json.dumps(settings.key)}\n"
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".config-")  # made with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
