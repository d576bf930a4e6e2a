"""What the options mean, and with what code the command ends."""

import json

import pytest
import typer
from corral import JobView
from corral.cli.admin.quota import _limit
from corral.cli.attend import ending_text, exit_code_of
from corral.cli.main import app, main
from corral.cli.options import merged, pairs, read
from corral.sending import read_fields
from typer.testing import CliRunner


@pytest.fixture(autouse=True)
def nobody_is_there(monkeypatch, tmp_path):
    """No settings: a command that gets as far as the server says so."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("CORRAL_URL", raising=False)
    monkeypatch.delenv("CORRAL_KEY", raising=False)


def run(*args):
    return CliRunner().invoke(app, list(args))


@pytest.mark.parametrize(
    ("over", "code"),
    [
        ({"state": "succeeded", "outcome": "exited", "exit_code": 0}, 0),
        ({"state": "failed", "outcome": "exited", "exit_code": 3}, 3),
        ({"state": "failed", "outcome": "oom_killed", "exit_code": 137}, 137),
        ({"state": "failed", "outcome": "time_limit", "exit_code": 0}, 125),
        ({"state": "failed", "outcome": "node_lost"}, 125),
        ({"state": "cancelled", "outcome": "cancelled"}, 130),
        ({"state": "cancelled", "outcome": "cancelled", "exit_code": 143}, 130),
    ],
)
def test_the_exit_code_is_the_jobs_own(over, code, a_job):
    assert exit_code_of(JobView.model_validate(a_job(**over))) == code


def test_an_end_that_the_code_does_not_tell_is_told(a_job):
    def told(**over):
        return ending_text(JobView.model_validate(a_job(id="job_x", **over)))

    assert told(state="failed", outcome="exited", exit_code=3) == ""
    assert told(state="succeeded", outcome="exited", exit_code=0) == ""
    assert (
        told(state="failed", outcome="image_error", error="no such image") == "job_x failed: image_error: no such image"
    )
    assert told(state="failed", outcome="oom_killed", exit_code=137) == "job_x failed: oom_killed"
    assert told(state="cancelled", outcome="cancelled") == "job_x was cancelled"


def test_options_win_over_the_file_and_what_is_not_said_is_left_out():
    base = {"image": "host", "resources": {"gpus": 1, "cpus": 2}, "env": {"A": "1"}}
    over = {
        "image": None, "command": ["x"], "resources": {"gpus": 0, "memory": None}, "env": {"A": "", "B": "2"},
        "retry": {"limit": None, "on": None},
    }  # fmt: skip
    assert merged(base, over) == {
        "image": "host", "command": ["x"], "resources": {"gpus": 0, "cpus": 2}, "env": {"A": "", "B": "2"}
    }  # fmt: skip


def test_a_job_is_read_as_strictly_as_the_server_reads_it():
    fields = {"image": "host", "command": ["x"], "time_limit": "5m", "resources": {"memory": "1GiB"}}
    spec = read_fields(fields)
    assert (spec.time_limit, spec.resources.memory) == (300_000_000, 2**30)
    for wrong in ({"gpus": 1}, {"nodes": "1"}, {"env": {"LD_PRELOAD": "x"}}, {"command": []}):
        with pytest.raises(typer.BadParameter):
            read(lambda wrong=wrong: read_fields({**fields, **wrong}))


def test_pairs():
    assert pairs(["A=1", "B=x=y", "C="], "NAME=VALUE") == {"A": "1", "B": "x=y", "C": ""}
    with pytest.raises(typer.BadParameter, match="NAME=VALUE"):
        pairs(["A"], "NAME=VALUE")


def test_limits():
    assert [_limit("8"), _limit("0"), _limit("unlimited")] == [8, 0, None]
    with pytest.raises(ValueError, match="neither"):
        _limit("-1")


@pytest.mark.parametrize(
    "args",
    [
        ["submit", "--image", "host"],
        ["submit", "--image", "NO", "true"],
        ["submit", "--image", "host", "--memory", "much", "--", "true"],
        ["submit", "--image", "host", "--env", "A", "--", "true"],
        ["submit", "--spec", "/none.json", "--", "true"],
        ["logs", "-f", "--tail", "3", "job_x"],
        ["usage", "--by", "colour"],
        ["usage", "--since", "yesterday"],
        ["admin", "prices", "set", "H100", "2,50"],
        ["admin", "tenants", "create", "Not A Name"],
        ["admin", "nodes", "join-token", "node-1", "--valid-for", "soon"],
        ["nonsense"],
    ],
)
def test_a_mistake_in_use_ends_with_2_before_anything_is_sent(args):
    assert run(*args).exit_code == 2


def test_what_follows_the_program_is_the_programs(tmp_path):
    file = tmp_path / "spec.json"
    file.write_text(json.dumps({"image": "host"}))
    for command in (["--", "echo", "-n", "--gpus"], ["echo", "-n", "--gpus", "--wait"]):
        answer = run("submit", "--spec", str(file), *command)
        assert type(answer.exception).__name__ == "NotConfigured"


def test_a_refusal_is_one_line_and_ends_with_1(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["corral", "ps", "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    shown = capsys.readouterr()
    assert (end.value.code, shown.out) == (1, "")
    assert shown.err.startswith("corral: not_configured: ")
    assert "corral login" in shown.err
    assert shown.err.count("\n") == 1


def paths(command, *above):
    """Every command below, as it is typed."""
    below = getattr(command, "commands", None)
    if not below:
        yield above, command
        return
    for name, part in below.items():
        yield from paths(part, *above, name)


@pytest.mark.parametrize("path", [pytest.param((p, c), id=" ".join(p)) for p, c in paths(typer.main.get_command(app))])
def test_every_command_has_json_and_help(path):
    words, command = path
    assert "--json" in [option for parameter in command.params for option in parameter.opts]
    assert command.help
    assert run(*words, "--help").exit_code == 0
