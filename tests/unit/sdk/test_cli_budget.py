"""`corral budget`: purses in people's units."""

import pytest
from corral.budgets import BudgetView
from corral.cli.budget import print_budget
from corral.cli.main import app
from typer.testing import CliRunner

TENANT = "ten_" + "0" * 26


def a_purse(**changes):
    return {
        "owner_id": TENANT, "unit": "money_micro", "period": "", "bound": 100_000_000, "held": 5_000_000,
        "spent": 80_500_000, "left": 14_500_000, "unposted": 0, "is_exhausted": False, "warned_percent": 80,
        "spent_at_week": 1_700_000_000_000_000, "spent_at_running": None, **changes,
    }  # fmt: skip


def test_a_purse_is_a_line_with_what_is_left_and_until_when_it_lasts(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # as into a file: nothing is wrapped
    hours = a_purse(unit="gpu_time", period="2026-01", bound=7_200_000_000, held=0, spent=1_800_000_000, left=0)
    gpus = a_purse(unit="gpus_milli", owner_id="key_1", bound=4000, held=1000, spent=0, left=3000, spent_at_week=None)
    view = BudgetView.model_validate(
        {
            "tenant_id": TENANT, "as_of": 0, "total_micro": 100_000_000, "purses": [a_purse(), hours, gpus],
            "days": [{"day": "2026-01-31", "cost_micro": 2_500_000, "gpu_us_milli": 0, "gpu_hours": "0.5",
                      "left_micro": 19_500_000}],
            "running_micro_per_hour": 3_000_000, "running_gpus_milli": 1500,
        }
    )  # fmt: skip
    print_budget(view, as_json=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "runs now 1.5 GPUs, 3.00 an hour" in lines
    assert "money 100.00 80.50 5.00 14.50 80 % 2023-11-14 22:13:20Z lasts" in lines
    assert "GPU-hours 2026-01 2 0.5 0 0 25 % 2023-11-14 22:13:20Z lasts" in lines
    assert "GPUs of key_1 4 0 1 3" in lines
    assert "2026-01-31 0.5 2.50 19.50" in lines


@pytest.mark.parametrize("text", ["many", "1.1234567", "-1"])
def test_a_sum_that_is_none_is_refused(text):
    result = CliRunner().invoke(app, ["admin", "budget", "set", TENANT, "--", text])
    assert result.exit_code == 2
