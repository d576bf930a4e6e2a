"""Which server and which key, and who may read them."""

import stat

import pytest
from corral.config import Settings, find_settings, read_settings, write_settings
from corral.errors import NotConfigured

SAVED = Settings("https://saved.test", "saved-key")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "corral" / "config.toml"
    write_settings(SAVED, path)
    return path


def test_arguments_come_first_then_the_environment_then_the_file(file):
    environ = {"CORRAL_URL": "https://env.test", "CORRAL_KEY": "env-key"}
    assert find_settings("https://arg.test", "arg-key", environ, file) == Settings("https://arg.test", "arg-key")
    assert find_settings(None, None, environ, file) == Settings("https://env.test", "env-key")
    assert find_settings(None, None, {}, file) == SAVED


def test_a_key_alone_goes_to_the_saved_server(file):
    assert find_settings(None, None, {"CORRAL_KEY": "other"}, file) == Settings(SAVED.url, "other")


def test_the_saved_key_goes_to_no_other_server(file):
    assert find_settings("https://saved.test/", None, {}, file) == SAVED
    with pytest.raises(NotConfigured, match="no key"):
        find_settings("https://evil.test", None, {}, file)


def test_without_any_it_says_what_to_do(tmp_path):
    with pytest.raises(NotConfigured) as refusal:
        find_settings(None, None, {}, tmp_path / "none")
    assert "corral login" in refusal.value.help


def test_the_file_is_its_owners_alone_and_reads_back(file):
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_settings(file) == SAVED
    assert [path.name for path in file.parent.iterdir()] == ["config.toml"]


def test_a_file_that_others_may_read_is_refused(file):
    file.chmod(0o644)
    with pytest.raises(NotConfigured, match="others may read") as refusal:
        read_settings(file)
    assert "chmod 600" in refusal.value.help


@pytest.mark.parametrize("text", ["url = 3\n", "not toml", "url = 'https://x.test'\n", "\udcff"])
def test_a_broken_file_is_refused(file, text):
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(NotConfigured):
        read_settings(file)


@pytest.mark.parametrize(
    "url", ["corral.test", "ftp://x", "http://", "https://u:p@x", "https://x/?a=1", "http://x:port"]
)
def test_what_is_no_server_is_refused(url, tmp_path):
    with pytest.raises(NotConfigured):
        find_settings(url, "key", {}, tmp_path / "none")


def test_a_key_with_a_line_break_is_refused(tmp_path):
    with pytest.raises(NotConfigured):
        find_settings("https://x.test", "key\r\nX: y", {}, tmp_path / "none")


def test_the_key_is_not_shown():
    assert "saved-key" not in repr(SAVED)
