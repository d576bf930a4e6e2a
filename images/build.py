"""Builds an image of this folder where there is no registry, and where there is one.

    python3 images/build.py cpu-base                   on a base from Debian's packages, made here (as root)
    python3 images/build.py cpu-base --base registry   on the base that its Dockerfile pins by digest
    python3 images/build.py cpu-base --lock            write the lock files anew, from what the indexes have now
    python3 images/build.py base                       only the base, for the images of compose.yaml

Packages and wheels come by hash, or the build ends: `packages.*.lock` for Debian's, `requirements.lock` for Python's.
Nothing has a network while the image itself is built. Needs Docker and pip, and debootstrap for a base of its own.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BASES = tomllib.loads((HERE / "bases.toml").read_text())
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "1735689600"))
"""The time that every file of a base has: 2025-01-01, so that the same packages give the same bytes."""
SERVICES_BASE = "corral/base:bookworm"
"""The tag by which compose.yaml finds its base."""
PYTHON = "3.11"
PLATFORMS = tuple(f"manylinux{tag}_x86_64" for tag in ("_2_28", "_2_27", "_2_17", "2014", "_2_12", "2010", "_2_5", "1"))
LEFT_OUT = ("var/cache/", "var/lib/apt/lists/", "var/log/", "tmp/", "run/", "dev/", "proc/", "sys/", "debootstrap/")
"""Folders whose content is left out of a base: caches, logs, and what the engine mounts."""
CHANGING = ("etc/machine-id", "etc/hostname", "etc/resolv.conf", "etc/ld.so.cache", "var/lib/dbus/machine-id")
"""Files that differ from one run to the next."""


def main() -> None:
    """Build what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = sorted(each.parent.name for each in HERE.glob("*/image.toml"))
    parser.add_argument("image", choices=["base", *names], help="base: what the services of compose.yaml stand on")
    parser.add_argument("--base", choices=("local", "registry"), default="local")
    parser.add_argument("--lock", action="store_true", help="write the lock files anew instead of building")
    parser.add_argument("--tag", help="name of the image in the engine (corral/NAME)")
    asked = parser.parse_args()
    if asked.image == "base":
        run(["docker", "tag", local_base("slim"), asked.tag or SERVICES_BASE])
        return
    folder = HERE / asked.image
    about = tomllib.loads((folder / "image.toml").read_text())
    if asked.lock:
        write_locks(folder, about["base"])
        return
    image_id = build(folder, about, asked.base == "local", asked.tag or f"corral/{asked.image}")
    smoke(folder, image_id)
    cuda = f" --min-cuda {about['cuda']}" if "cuda" in about else ""
    print(f"built {image_id}\nadmit it: corral admin images admit {asked.image} {image_id}{cuda}")


def build(folder: Path, about: dict[str, Any], is_local: bool, tag: str) -> str:
    """The id of the image, built from its Dockerfile with no network."""
    arguments = ["--build-arg", f"BASE={local_base(about['base'])}"] if is_local else []
    labels = {"corral.image": folder.name} | ({"corral.cuda": about["cuda"]} if "cuda" in about else {})
    arguments += [word for name, value in labels.items() for word in ("--label", f"{name}={value}")]
    with tempfile.TemporaryDirectory(prefix="corral-image-") as name:
        context = Path(name)
        shutil.copytree(folder, context, dirs_exist_ok=True)
        fetch_wheels([HERE / "pip.lock", folder / "requirements.lock"], context / "wheels")
        command = ["docker", "build", "--network=none", "--tag", tag, *arguments, str(context)]
        run(command, DOCKER_BUILDKIT="0")  # the classic builder is in every engine, and asks no registry for a syntax
    return said(["docker", "image", "inspect", "--format", "{{.Id}}", tag])


def smoke(folder: Path, image_id: str) -> None:
    """Run the image's own check as a job would find it: no network, no root, nothing writable but /tmp."""
    walls = ["--network=none", "--read-only", "--user=64002:64002", "--cap-drop=ALL", "--tmpfs=/tmp:exec"]
    command = ["docker", "run", "--rm", "--interactive", *walls, image_id, "python3", "-"]
    checks = (HERE / "smoke.py").read_bytes() + (folder / "smoke.py").read_bytes()
    subprocess.run(command, input=checks, check=True)


def fetch_wheels(locks: Sequence[Path], into: Path) -> None:
    """Download what the locks name, each file by its hash."""
    into.mkdir()
    for lock in locks:
        if "==" in lock.read_text():
            pip("download", "--quiet", "--require-hashes", "--no-deps", "--dest", str(into), "--requirement", str(lock))


def local_base(flavour: str) -> str:
    """The name of a base made of Debian's packages; made on the first call, found on the next ones."""
    lock = HERE / f"packages.{flavour}.lock"
    name = f"corral/base-{flavour}:{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False).returncode == 0:
        return name
    with downloaded(flavour) as archive, tempfile.TemporaryDirectory(prefix="corral-base-") as root:
        if (found := package_hashes(archive)) != (wanted := locked_hashes(lock)):
            changed = "\n".join(sorted(f"{each} {digest}" for each, digest in found.items() - wanted.items()))
            sys.exit(f"the mirror's packages are not those in {lock.name}:\n{changed}\nsee --lock, or name a snapshot")
        run(["debootstrap", *debootstrap_words(flavour), f"--unpack-tarball={archive}", *where(root)])
        with tempfile.NamedTemporaryFile(suffix=".tar") as tar:
            pack(Path(root), Path(tar.name))
            run(["docker", "import", tar.name, name])
    return name


def write_locks(folder: Path, flavour: str) -> None:
    """Take down what the mirror and the index have now."""
    with downloaded(flavour) as archive:
        lines = [f"{name} sha256:{digest}\n" for name, digest in sorted(package_hashes(archive).items())]
    (HERE / f"packages.{flavour}.lock").write_text("".join(lines))
    for source, lock in (
        (HERE / "pip.in", HERE / "pip.lock"),
        (folder / "requirements.in", folder / "requirements.lock"),
    ):
        words = ["--generate-hashes", "--only-binary=:all:", "--no-header", f"--python-version={PYTHON}"]
        run(
            [
                "uv",
                "pip",
                "compile",
                "--quiet",
                *words,
                "--python-platform=x86_64-manylinux_2_28",
                str(source),
                "-o",
                str(lock),
            ]
        )


@contextmanager
def downloaded(flavour: str) -> Iterator[Path]:
    """The packages of a base, in debootstrap's own archive; their index is checked against Debian's key."""
    with tempfile.TemporaryDirectory(prefix="corral-debs-") as folder:
        archive = Path(folder) / "packages.tar.gz"
        run(["debootstrap", *debootstrap_words(flavour), f"--make-tarball={archive}", *where(f"{folder}/root")])
        yield archive


def debootstrap_words(flavour: str) -> Sequence[str]:
    include = ",".join(BASES[flavour]["packages"])
    return ["--variant=minbase", f"--include={include}", f"--keyring={BASES['keyring']}"]


def where(root: str) -> Sequence[str]:
    return [BASES["suite"], root, os.environ.get("CORRAL_DEBIAN_MIRROR", BASES["mirror"])]


def package_hashes(archive: Path) -> dict[str, str]:
    """The SHA-256 of each package in debootstrap's archive, by file name."""
    found = {}
    with tarfile.open(archive) as tar:
        for entry in tar:
            if entry.name.endswith(".deb") and (file := tar.extractfile(entry)) is not None:
                found[Path(entry.name).name] = hashlib.sha256(file.read()).hexdigest()
    return found


def locked_hashes(lock: Path) -> dict[str, str]:
    """What a lock file of packages holds."""
    return dict(line.split(" sha256:") for line in lock.read_text().splitlines())


def pack(root: Path, into: Path) -> None:
    """A tar of a root file system that is the same for the same packages: sorted, one time, no caches."""
    with tarfile.open(into, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            if name in CHANGING or any(name.startswith(folder) for folder in LEFT_OUT):
                continue
            if name.endswith(".pyc") or "/__pycache__" in f"/{name}":
                continue
            entry = tar.gettarinfo(path, name)
            entry.mtime, entry.uname, entry.gname = EPOCH, "", ""
            if entry.isreg():
                with path.open("rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)


def pip(*words: str) -> None:
    """Run pip for the images' Python, not for this one."""
    target = [f"--python-version={PYTHON}", "--only-binary=:all:", *(f"--platform={each}" for each in PLATFORMS)]
    run([sys.executable, "-m", "pip", *words, *target])


def run(command: Sequence[str], **environment: str) -> None:
    """Run it, or end with its failure."""
    print("+", " ".join(command), file=sys.stderr)
    if (code := subprocess.run(command, env={**os.environ, **environment}, check=False).returncode) != 0:
        sys.exit(f"{command[0]} ended with {code}")


def said(command: Sequence[str]) -> str:
    """What it prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
