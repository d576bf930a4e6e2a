"""The public keys of servers that were trusted once, kept beside the configuration."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.config import config_file
from corral.signed import NotProven, TrustedKeys, key_id_of, public_key


def pins_file() -> Path:
    """Where they lie."""
    return config_file().with_name("signing-keys.json")


@dataclass(slots=True)
class Pins:
    """What is kept, by key id: the key, who told it and when."""

    held: dict[str, Mapping[str, Any]]

    @classmethod
    def read(cls) -> "Pins":
        """Those of the file; none where there is no file.

        Raises:
            NotProven: the file is broken.
        """
        try:
            held = json.loads(pins_file().read_text())
            return cls({str(key_id): dict(pin) for key_id, pin in held.items()})
        except FileNotFoundError:
            return cls({})
        except (ValueError, AttributeError, TypeError) as error:
            raise NotProven(f"{pins_file()} is broken", "remove it, and pin again: corral usage pin") from error

    @property
    def keys(self) -> TrustedKeys:
        """The keys themselves. One whose name is not its own is left out."""
        found = {key_id: public_key(str(pin.get("public_key"))) for key_id, pin in self.held.items()}
        return {key_id: key for key_id, key in found.items() if key_id_of(key) == key_id}

    def add(self, key_id: str, pem: str, url: str, at_us: int) -> bool:
        """Keep a key; False if it was kept before."""
        if key_id in self.held:
            return False
        self.held[key_id] = {"public_key": pem, "url": url, "pinned_us": at_us}
        return True

    def write(self) -> None:
        """Put the file in place whole."""
        file = pins_file()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".signing-keys-")
        with os.fdopen(descriptor, "w") as stream:
            json.dump(self.held, stream, indent=2)
        Path(name).replace(file)
