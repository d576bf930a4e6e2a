"""What must hold in every image: checked inside, as a job would be. Each image's own check follows in the same run."""

import os
import sys
from pathlib import Path

assert sys.version_info[:2] == (3, 11), sys.version
assert os.getuid() != 0
for folder, folders, names in os.walk("/"):
    folders[:] = [each for each in folders if folder != "/" or each not in ("proc", "sys", "dev")]
    for name in names:
        path = Path(folder, name)
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        assert path.is_symlink() or not mode & 0o6000, f"{path} is setuid or setgid"
for cache in ("/var/lib/apt/lists", "/var/cache/apt/archives", "/root/.cache"):
    try:
        left = [each for each in Path(cache).iterdir() if each.name not in ("lock", "partial")]
    except (FileNotFoundError, PermissionError):
        continue
    assert not left, f"{cache} holds {left}"
