"""The node's credential: kept whole, and for its owner's eyes only."""

import stat
from pathlib import Path

from domain.ids import NodeId
from worker.credential import FILE, Credential, load, save


def test_a_credential_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    credential = Credential(NodeId("nod_1"), "n", "secret")
    assert load(tmp_path) is None
    save(tmp_path, credential)
    assert load(tmp_path) == credential
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_a_credential_does_not_show_its_token() -> None:
    assert "secret" not in repr(Credential(NodeId("nod_1"), "n", "secret"))


def test_a_half_written_one_is_replaced(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.new").write_text("{")
    save(tmp_path, Credential(NodeId("nod_1"), "n", "secret"))
    assert load(tmp_path) is not None
