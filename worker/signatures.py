"""Whether an image is signed by whom a rule names, asked of the program `cosign`. Missing is not skipped."""

import json
import logging
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from corral.node import SignatureDemand

from domain.images import digest_of, repository_of
from sandbox.contract import ImageRefused, SandboxFault

log = logging.getLogger(__name__)

UNSIGNED: Final = frozenset({10, 12, 13})
"""cosign's exit codes for: no signature, none that matches, no certificate on one. Others say nothing of the image."""
SAID_CHARACTERS_MAX: Final = 300


class Signatures:
    """Asks cosign once for each image and demand; what a digest names, and who signed it, does not change."""

    def __init__(self, program: str, timeout_s: float, docker_config: Path | None = None) -> None:
        """`docker_config` is the folder with the registries' credentials."""
        self._program = program
        self._timeout_s = timeout_s
        self._docker_config = docker_config
        self._found: dict[tuple[str, SignatureDemand], str] = {}
        self._lock = threading.Lock()

    def check(self, reference: str, demand: SignatureDemand) -> str:
        """Who signed it.

        Raises:
            ImageRefused: nobody that the demand names.
            SandboxFault: it could not be found out here; the image does not run here then.
        """
        if not repository_of(reference):
            raise ImageRefused("a signature is asked for, and an image that was built on a node has none")
        with self._lock:
            if (known := self._found.get((reference, demand))) is not None:
                return known
        said = self._ask(reference, demand)
        _check_digest(reference, said)
        signed_by = demand.identity or f"the key of rule {demand.rule_id}"
        with self._lock:
            self._found[reference, demand] = signed_by
        return signed_by

    def _ask(self, reference: str, demand: SignatureDemand) -> str:
        """What cosign writes when it is content."""
        with tempfile.TemporaryDirectory(prefix="corral-cosign-") as folder:
            env = {"PATH": os.defpath, "HOME": folder}
            if self._docker_config is not None:
                env["DOCKER_CONFIG"] = str(self._docker_config)
            try:
                done = subprocess.run(
                    self._command(reference, demand, Path(folder)),
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=self._timeout_s,
                    env=env,
                    check=False,
                )
            except FileNotFoundError as error:
                raise SandboxFault(f"a signature is asked for, and {self._program} is not on this node") from error
            except OSError as error:
                raise SandboxFault(f"{self._program} cannot be run: {error.strerror}") from error
            except subprocess.TimeoutExpired as error:
                raise SandboxFault("the check of the image's signature took too long") from error
        if done.returncode in UNSIGNED:
            raise ImageRefused("the image is not signed as the rule for its repository asks")
        if done.returncode != 0:
            log.warning("cosign on %s ended with %d: %s", reference, done.returncode, done.stderr)
            last = "".join(done.stderr.strip().splitlines()[-1:])[:SAID_CHARACTERS_MAX]
            raise SandboxFault(f"the image's signature could not be checked: {last}")
        return done.stdout

    def _command(self, reference: str, demand: SignatureDemand, folder: Path) -> Sequence[str]:
        command = [self._program, "verify", "--output", "json"]
        if demand.key_pem is not None:
            key = folder / "signer.pub"
            key.write_text(demand.key_pem)
            command += ["--key", str(key)]
        else:
            command += ["--certificate-identity", demand.identity or "", "--certificate-oidc-issuer"]
            command += [demand.issuer or ""]
        if not demand.transparency_log:
            command += ["--insecure-ignore-tlog=true"]
        return [*command, reference]


def _check_digest(reference: str, said: str) -> None:
    """Whether what was verified is what was asked about."""
    digest = digest_of(reference)
    try:
        signatures = json.loads(said)
        found = {each["critical"]["image"]["docker-manifest-digest"] for each in signatures}
    except (ValueError, KeyError, TypeError) as error:
        raise SandboxFault("cosign's answer is not understood") from error
    if found != {digest}:
        raise ImageRefused("the signature is of another image")
