"""Builds the stand-in libnvidia-ml.so.1 against NVIDIA's own header, and writes the scripts that it follows."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path
from typing import NoReturn

import pytest

SOURCE = Path(__file__).with_name("nvml_standin.c")
LIBRARY = "libnvidia-ml.so.1"
SYSTEM = ("driver = 570.86.15", "nvml = 12.570.86.15", "cuda = 12080")

NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
LIB_RM_VERSION_MISMATCH = 18
UNKNOWN = 999


@dataclass(frozen=True)
class Standin:
    """One copy of the library, in a folder of its own, and the script that it reads at every call."""

    folder: Path

    @property
    def script(self) -> Path:
        return self.folder / "nvml.script"

    def shows(self, *gpus: list[str], system: tuple[str, ...] = SYSTEM) -> None:
        """From now on the library shows these GPUs, in this order. Swapped in whole: a reader sees one or the other."""
        lines = [*system, *(line for gpu in gpus for line in ("[gpu]", *gpu))]
        new = self.folder / "nvml.script.new"
        new.write_text("".join(f"{line}\n" for line in lines))
        new.replace(self.script)


def a_gpu(letter: str = "a", *more: str, used_mib: int = 4, ecc: str = "on") -> list[str]:
    """A healthy, idle H200. `more` are further lines of its script."""
    return [
        f"uuid = {uuid_of(letter)}",
        "name = NVIDIA H200",
        f"pci = 00000000:{ord(letter):02X}:00.0",
        "memory_mib = 143771",
        f"used_mib = {used_mib}",
        "reserved_mib = 600",
        f"ecc = {ecc}",
        "utilisation = 0",
        "recovery = 0",
        "remap_pending = 0",
        *more,
    ]


def uuid_of(letter: str) -> str:
    return f"GPU-{letter * 8}-{letter * 4}-{letter * 4}-{letter * 4}-{letter * 12}"


def built_library(folder: Path) -> Path:
    """The compiled library, in `folder`. Skips the test where it can't be made; fails where nothing may be skipped."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    header = next((file for file in files("nvidia-nvml-dev") or () if file.name == "nvml.h"), None)
    if compiler is None:
        _do_without("no C compiler here, so the stand-in for NVML cannot be built")
    if header is None:
        _do_without("nvidia-nvml-dev brought no nvml.h, so the stand-in for NVML cannot be built")
    library = folder / LIBRARY
    include = Path(header.locate()).resolve().parent
    options = ["-std=gnu11", "-Wall", "-Wextra", "-O1", "-fPIC", "-shared", f"-Wl,-soname,{LIBRARY}"]
    subprocess.run([compiler, *options, "-I", include, "-o", library, SOURCE, "-ldl"], check=True, timeout=60)
    return library


def a_standin(library: Path, folder: Path) -> Standin:
    """A copy of the library in `folder` that shows no GPU yet."""
    shutil.copy(library, folder / LIBRARY)
    standin = Standin(folder)
    standin.shows()
    return standin


def _do_without(reason: str) -> NoReturn:
    if os.environ.get("CORRAL_REQUIRE_SERVICES") == "1" or os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
