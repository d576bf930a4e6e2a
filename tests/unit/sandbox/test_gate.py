"""The gate's script under each shell that this machine has: it waits, and then is the command and nothing else."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from sandbox import gate

SHELLS = [
    pytest.param(words, id=words[0], marks=pytest.mark.skipif(shutil.which(words[0]) is None, reason="not here"))
    for words in (("dash",), ("bash", "--posix"), ("busybox", "sh"))
]


class Gate:
    """A gate on a folder of the test's own, with no sandbox around it."""

    def __init__(self, folder: Path, shell: tuple[str, ...], command: tuple[str, ...], env: dict[str, str]) -> None:
        gate.make_folder(folder, os.getuid())
        self.folder = folder
        self.log = os.open(folder / gate.LOG, os.O_RDWR | os.O_NONBLOCK)
        words = [word.replace(gate.INSIDE, str(folder)) for word in gate.command_line(shell, command)]
        self.process = subprocess.Popen(words, env=env, executable=shutil.which(shell[0]))

    def open(self) -> None:
        (self.folder / gate.GO).write_bytes(gate.OPEN)  # blocks until the gate waits

    def end(self) -> tuple[int, bytes]:
        code = self.process.wait(20)
        try:
            output = os.read(self.log, 65536)
        except BlockingIOError:
            output = b""
        os.close(self.log)
        return code, output


def say(fd: int, word: bytes) -> None:
    """Write to the gate, also while it is just opening its FIFO anew."""
    deadline = time.monotonic() + 20
    while True:
        try:
            os.write(fd, word)
            return
        except BrokenPipeError:
            assert time.monotonic() < deadline


def run(folder: Path, shell: tuple[str, ...], *command: str, **env: str) -> tuple[int, bytes]:
    made = Gate(folder, shell, command, {"PATH": f"{folder}:/usr/bin:/bin", **env})
    made.open()
    return made.end()


@pytest.mark.parametrize("shell", SHELLS)
class TestGate:
    def test_it_waits_for_the_word(self, tmp_path: Path, shell: tuple[str, ...]) -> None:
        made = Gate(tmp_path / "gate", shell, ("echo", "ran"), {"PATH": "/usr/bin:/bin"})
        with (made.folder / gate.GO).open("wb", buffering=0):
            pass  # a runner that died before it wrote anything
        with (made.folder / gate.GO).open("wb", buffering=0) as writer:
            for nothing in (b"close\n", b"\n", b"opener\n"):
                say(writer.fileno(), nothing)
            assert made.process.poll() is None
            say(writer.fileno(), gate.OPEN)
            assert made.end() == (0, b"ran\n")

    def test_words_and_codes_arrive(self, tmp_path: Path, shell: tuple[str, ...]) -> None:
        words = ("a b", "", "*", "$HOME", "-n", "two\nlines", "\\")
        script = 'for each; do printf "<%s>" "$each"; done; exit 7'
        found = run(tmp_path / "gate", shell, "/bin/sh", "-c", script, "zero", *words)
        assert found == (7, "".join(f"<{word}>" for word in words).encode())

    def test_the_environment_is_left_as_it_was(self, tmp_path: Path, shell: tuple[str, ...]) -> None:
        given = {"word": "1", "path": "2", "A_LONG_ONE": "a b\nc=d", "CDPATH": "/usr"}
        code, output = run(tmp_path / "gate", shell, "/usr/bin/env", "-0", **given)
        found = dict(line.split("=", 1) for line in output.decode().split("\0") if line)
        assert code == 0
        assert found.items() >= given.items()
        assert found.keys() - given.keys() <= {"PATH", "PWD", "SHLVL", "_"}

    def test_a_bare_name_is_looked_up_in_the_path(self, tmp_path: Path, shell: tuple[str, ...]) -> None:
        """Not taken from the shell's own: neither a builtin nor busybox's applet."""
        folder = tmp_path / "gate"
        folder.mkdir()
        for name in ("ls", "echo", "kill"):
            (folder / name).write_text("#!/bin/sh\necho mine\n")
            (folder / name).chmod(0o755)
            assert run(folder, shell, name) == (0, b"mine\n")

    @pytest.mark.parametrize(("command", "code"), [("none-such", 127), ("", 127), ("/tmp", 126), ("./none", 127)])
    def test_what_is_no_command(self, tmp_path: Path, shell: tuple[str, ...], command: str, code: int) -> None:
        found, output = run(tmp_path / "gate", shell, command)
        assert found == code
        assert output.startswith(b"corral: ")

    def test_a_file_that_may_not_be_executed(self, tmp_path: Path, shell: tuple[str, ...]) -> None:
        folder = tmp_path / "gate"
        folder.mkdir()
        (folder / "plain").write_text("x")
        assert run(folder, shell, "plain")[0] == 126
        assert run(folder, shell, f"{folder}/plain")[0] == 126
