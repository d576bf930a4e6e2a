"""What every sandbox backend does with secrets: one class, subclassed for each backend."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from sandbox.contract import LaunchOrder, Sandbox, SandboxFault
from sandbox.runner_link import RunnerLink
from tests.integration.sandbox.lives import Backend, Ended, OrderMaker, ended, kill_runner, log_of, ran, says, until


class SecretsConformance(Backend):
    """What every backend does with secrets; `sandbox` and `order` are the subclass's fixtures."""

    VALUES: Mapping[str, bytes] = MappingProxyType({"TOKEN": b"correct horse battery", "KEY": bytes(range(256))})

    def test_the_job_reads_its_secrets_and_cannot_change_them(self, sandbox: Sandbox, order: OrderMaker) -> None:
        script = """
            cd /run/secrets; ls; wc -c < KEY; cat TOKEN | tr a-z A-Z; echo
            (echo x > TOKEN) 2>/dev/null || (echo x > NEW) 2>/dev/null || rm -f TOKEN 2>/dev/null || echo read-only
            stat -c '%a %u' TOKEN | sed "s/ $(id -u)$/ mine/"
        """
        asked = order("sh", "-c", script, secrets=tuple(self.VALUES))
        found = self._ran(sandbox, asked)
        assert found.log.decode().split("\n") == [
            "KEY", "TOKEN", "256", "CORRECT HORSE BATTERY", "read-only", "400 mine", ""
        ]  # fmt: skip
        assert {"mount /run/secrets", "secrets"} <= {fact.name for fact in found.record.facts}

    def test_its_log_holds_none_of_them(self, sandbox: Sandbox, order: OrderMaker) -> None:
        script = "cat /run/secrets/TOKEN; echo; printf 'ab%s' \"$(cat /run/secrets/TOKEN)\" | base64; echo done"
        asked = order("sh", "-c", script, secrets=tuple(self.VALUES))
        found = self._ran(sandbox, asked)
        lines = found.log.split(b"\n")
        assert lines[0] == b"[redacted:TOKEN]"
        assert b"[redacted:TOKEN]" in lines[1]
        assert lines[-2] == b"done"
        kept = [path.read_bytes() for path in asked.state_dir.rglob("*") if path.is_file()]
        assert kept
        assert all(b"correct horse" not in each and b"b3JyZWN0" not in each for each in kept)

    def test_without_secrets_there_is_no_place_for_them(self, sandbox: Sandbox, order: OrderMaker) -> None:
        found = ran(sandbox, order("sh", "-c", "ls /run/secrets 2>&1 >/dev/null | wc -l"))
        assert found.log == b"1\n"

    def test_what_was_brought_is_known_until_it_is_removed(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("true", secrets=tuple(self.VALUES))
        name = sandbox.create(asked, self.VALUES)
        try:
            other = {**self.VALUES, "TOKEN": b"another value"}
            assert sandbox.create(asked, other) == name  # as an agent does that was restarted meanwhile
            sandbox.verify(name, asked)
            sandbox.start(name, asked)
            assert ended(sandbox, name, asked).exit_code == 0
            assert sandbox.secrets(name, asked) == self.VALUES
        finally:
            sandbox.remove(name, asked)
        with pytest.raises(SandboxFault):
            sandbox.secrets(name, asked)
        assert str(asked.attempt_id) not in Path("/proc/mounts").read_text()

    def test_values_that_were_not_asked_for_are_not_brought(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("true", secrets=("TOKEN",))
        for values in ({}, {"OTHER": b"value of another"}, self.VALUES):
            with pytest.raises(SandboxFault, match="not those of the order"):
                sandbox.create(asked, values)

    def _ran(self, sandbox: Sandbox, asked: LaunchOrder) -> Ended:
        name = sandbox.create(asked, self.VALUES)
        try:
            record = sandbox.verify(name, asked)
            sandbox.start(name, asked)
            return Ended(ended(sandbox, name, asked), log_of(asked), {}, record)
        finally:
            sandbox.remove(name, asked)

    def test_a_new_runner_knows_them_again(self, sandbox: Sandbox, order: OrderMaker) -> None:
        if self.dies_with_runner:
            pytest.skip("the sandbox dies with its runner")
        script = "echo up; while [ ! -e /scratch/go ]; do sleep 0.02; done; cat /run/secrets/TOKEN"
        asked = order("sh", "-c", script + "; echo; echo done", secrets=tuple(self.VALUES))
        name = sandbox.create(asked, self.VALUES)
        try:
            sandbox.verify(name, asked)
            sandbox.start(name, asked)
            until(says(asked, b"up"))
            kill_runner(asked)
            RunnerLink(asked.state_dir).state()
            Path(f"/proc/{min(sandbox.pids(name))}/root/scratch/go").touch()
            assert ended(sandbox, name, asked).exit_code == 0
            assert log_of(asked) == b"up\n[redacted:TOKEN]\ndone\n"
        finally:
            sandbox.remove(name, asked)
