"""The passwords and keys of a fleet that is started from `compose.yaml`: made once, a folder for each who may read it.

```
postgres/password       for the database server
redis/users.acl         hashes alone, for Redis
api/env, control/env    addresses with passwords, for one service each
keys/secrets.keys       the master key of tenants' secrets, for api and control
keys/signing.key        what signs receipts, adjustments and seals, for the same
```
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from hints.access import api_rules, control_rules
from store.master_keys import add_key
from store.signing import new_signing_key

PASSWORD_BYTES = 24
OWNERS: Mapping[str, int] = {"postgres": 64001, "redis": 64002, "api": 64000, "control": 64000, "keys": 64000}
"""The user that each folder is for, as images/ makes it."""
REDIS_USERS: Mapping[str, Iterable[str]] = {"api": api_rules(), "control": control_rules()}
KEYS: Mapping[str, Callable[[Path], object]] = {"secrets.keys": add_key, "signing.key": new_signing_key}
STORAGE = "file:///var/lib/corral/storage"


def make(folder: Path, owners: Mapping[str, int] = OWNERS) -> bool:
    """Fill the folder, each part readable by its owner alone; False if that was done before, and then nothing changes.

    What an earlier call was killed at is made anew: nobody starts before the last file is there.
    """
    done = folder / "keys" / "made"
    if done.exists():
        return False
    database_password = secrets.token_hex(PASSWORD_BYTES)
    redis_passwords = {user: secrets.token_hex(PASSWORD_BYTES) for user in REDIS_USERS}
    _write(folder / "postgres" / "password", database_password)
    _write(folder / "redis" / "users.acl", _users(redis_passwords))
    for service, password in redis_passwords.items():
        _write(folder / service / "env", _env(database_password, f"redis://{service}:{password}@redis:6379/0"))
    keys = folder / "keys"
    keys.mkdir(exist_ok=True)
    for name, make_key in KEYS.items():
        (keys / name).unlink(missing_ok=True)
        make_key(keys / name)
    _write(done, "")
    for name, uid in owners.items():
        _give(folder / name, uid)
    return True


def _users(passwords: Mapping[str, str]) -> str:
    lines = ["user default off"]
    for user, password in passwords.items():
        digest = hashlib.sha256(password.encode()).hexdigest()
        lines.append(f"user {user} on #{digest} {' '.join(REDIS_USERS[user])}")
    return "\n".join(lines) + "\n"


def _env(database_password: str, redis_url: str) -> str:
    settings = {
        "CORRAL_DATABASE_URL": f"postgresql://corral:{database_password}@postgres:5432/corral",
        "CORRAL_REDIS_URL": redis_url,
        "CORRAL_STORAGE_URL": STORAGE,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as stream:
        stream.write(text)


def _give(folder: Path, uid: int) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid)
