"""The check of signatures, by a stand-in for cosign that writes down how it was asked."""

import json
from pathlib import Path

import pytest
from corral.node import SignatureDemand

from sandbox.contract import ImageRefused, SandboxFault
from worker.signatures import Signatures

DIGEST = "sha256:" + "a" * 64
REFERENCE = f"r.example/team/x@{DIGEST}"
BY_KEY = SignatureDemand(rule_id="sig_1", key_pem="THE KEY\n", identity=None, issuer=None, transparency_log=False)
BY_NAME = SignatureDemand(
    rule_id="sig_2", key_pem=None, identity="ci@r.example", issuer="https://issuer", transparency_log=True
)
STANDIN = """#!/bin/sh
echo "$@" >> {folder}/asked
env > {folder}/env
while [ $# -gt 1 ]; do [ "$1" = --key ] && cat "$2" > {folder}/key; shift; done
cat {folder}/answer
cat {folder}/trouble >&2
exit $(cat {folder}/code)
"""


class Standin:
    """Answers as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "cosign"
        self.program.write_text(STANDIN.format(folder=folder))
        self.program.chmod(0o755)
        self.answers()

    def answers(self, code: int = 0, digest: str = DIGEST, trouble: str = "") -> None:
        said = [{"critical": {"image": {"docker-manifest-digest": digest}}}]
        (self.folder / "answer").write_text(json.dumps(said) if code == 0 else "")
        (self.folder / "trouble").write_text(trouble)
        (self.folder / "code").write_text(str(code))

    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture
def cosign(tmp_path: Path) -> Standin:
    return Standin(tmp_path)


@pytest.fixture
def signatures(cosign: Standin) -> Signatures:
    return Signatures(str(cosign.program), 20)


def test_a_signature_by_a_key_is_asked_for_exactly_this_digest_and_once(
    cosign: Standin, signatures: Signatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_JOIN_TOKEN", "secret")
    assert signatures.check(REFERENCE, BY_KEY) == "the key of rule sig_1"
    assert signatures.check(REFERENCE, BY_KEY) == "the key of rule sig_1"
    [asked] = cosign.asked()
    words = asked.split()
    assert words[:4] == ["verify", "--output", "json", "--key"]
    assert words[5:] == ["--insecure-ignore-tlog=true", REFERENCE]
    assert (cosign.folder / "key").read_text() == "THE KEY\n"
    assert "secret" not in (cosign.folder / "env").read_text()


def test_a_keyless_one_names_its_identity_and_who_vouches_for_it(cosign: Standin, signatures: Signatures) -> None:
    assert signatures.check(REFERENCE, BY_NAME) == "ci@r.example"
    [asked] = cosign.asked()
    wanted = "verify --output json --certificate-identity ci@r.example --certificate-oidc-issuer https://issuer"
    assert asked == f"{wanted} {REFERENCE}"


@pytest.mark.parametrize("code", [10, 12, 13])
def test_an_image_that_is_not_signed_so_is_refused(cosign: Standin, signatures: Signatures, code: int) -> None:
    cosign.answers(code)
    for _ in range(2):  # a refusal is not kept: it may be signed meanwhile
        with pytest.raises(ImageRefused, match="not signed"):
            signatures.check(REFERENCE, BY_KEY)
    assert len(cosign.asked()) == 2


def test_trouble_is_no_verdict_and_no_pass(cosign: Standin, signatures: Signatures) -> None:
    cosign.answers(1, trouble="Error: dial tcp: connection refused\n")
    with pytest.raises(SandboxFault, match="could not be checked: Error: dial tcp") as caught:
        signatures.check(REFERENCE, BY_KEY)
    assert not isinstance(caught.value, ImageRefused)


def test_a_signature_of_another_image_does_not_count(cosign: Standin, signatures: Signatures) -> None:
    cosign.answers(digest="sha256:" + "b" * 64)
    with pytest.raises(ImageRefused, match="another image"):
        signatures.check(REFERENCE, BY_KEY)


def test_an_image_built_on_a_node_has_no_signature(cosign: Standin, signatures: Signatures) -> None:
    with pytest.raises(ImageRefused, match="built on a node"):
        signatures.check(DIGEST, BY_KEY)


def test_a_missing_program_is_not_skipped() -> None:
    with pytest.raises(SandboxFault, match="is not on this node"):
        Signatures("cosign-that-is-not-there", 5).check(REFERENCE, BY_KEY)


def test_one_that_hangs_is_given_up(cosign: Standin) -> None:
    cosign.program.write_text("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(SandboxFault, match="too long"):
        Signatures(str(cosign.program), 0.2).check(REFERENCE, BY_KEY)
