"""Every figure of one run has one value, wherever it is printed or kept."""

import json
import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import invoke

from rlvr_cli import api
from rlvr_cli.show.page import page_data
from rlvr_cli.show.source import open_source

MEASURED = "held_out_pass@1"


def printed(run: Path) -> list[tuple[str, float]]:
    """The held-out figures on the screen: of the line of the run, of its table, and of a step."""
    shown = invoke("show", run).stdout
    values = re.findall(r"held out (\d\.\d+) (at step \d+)", shown)
    (row,) = re.findall(r"^1 .*\] .*$", shown, re.MULTILINE)
    before, newest = re.findall(r"(\d\.\d+) \[[^]]+\](?: ((?:at|after) .*\w))?", row)
    values += [(before[0], "before training"), newest]
    steps = {words.rpartition(" ")[2] for _, words in values if words.startswith("at step")}
    for step in steps:
        told = invoke("show", run, "--explain", "--step", step).stdout
        values += [(value, f"at step {step}") for value in re.findall(r"then (\d\.\d+)\.", told)]
    return [(moment, float(value)) for value, moment in values]


def kept(run: Path) -> list[tuple[str, float]]:
    """The held-out figures in files, on the page and from Python."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    values = [(f"at step {line['step']}", line.get(MEASURED)) for line in lines]
    page = page_data([open_source(run)])
    columns = page["runs"][0]["metrics"]
    steps = zip(columns["step"], columns[MEASURED], strict=True)
    values += [(f"at step {step}" if step else "before training", value) for step, value in steps]
    summary = json.loads((run / "summary.json").read_text())
    best = summary["best"]
    values += [(f"at step {best['step']}", best["pass@1"])]
    for figures, moment in ((summary["before"], "before"), (summary["after"], "after")):
        values += [(f"{moment} training", figures["pass@1"])]
    values += [("before training", api.Run(run).before["pass@1"])]
    values += [("after training", api.Run(run).after["pass@1"])]
    return [(moment, value) for moment, value in values if value is not None]


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_figure_of_a_run_has_one_value_wherever_it_is(finished_run, tmp_path, is_finished):
    run = shutil.copytree(finished_run, tmp_path / "run")
    if not is_finished:  # its newest measurement is that of a step
        (run / "rollouts" / "held-out-after.jsonl").unlink()
    values = defaultdict(set)
    for moment, value in [*printed(run), *kept(run)]:
        values[moment].add(f"{value:.3f}")
    assert set(values) == {"before training", "at step 2", "at step 4", "after training"}
    assert all(len(found) == 1 for found in values.values()), values
