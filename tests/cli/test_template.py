"""Templates that write the date, or end a turn with a token that ends nothing: through the command
line, over several starts."""

import json
import os
from pathlib import Path

import pytest
import yaml
from conftest import invoke, jsonl, refused
from safetensors.torch import load_file
from strange_models import TINY, edited, model_at

from rlvr_cli.evaluation.result_dir import PartialResult

TEMPLATE = (TINY / "chat_template.jinja").read_text()
ROWS = jsonl(*({"problem": f"What is {n} + 1?", "answer": n + 1} for n in range(4)))
SMALL = ("--algo", "reinforce", "--prompts", 2, "-n", 2, "--max-tokens", 6, "--set", "eval.limit=0")
DAY = "%Y-%m-%d"
DATE = ("--set", "data.date=2020-05-06")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty directory with problems in it."""
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text(ROWS)


def dated(form: str) -> str:
    """Make the built-in model with a template that begins with the time in this form."""
    model = model_at(Path("dated"))
    (model / "chat_template.jinja").write_text(f"{{{{ strftime_now('{form}') }}}} " + TEMPLATE)
    return "dated"


def train(*args: object) -> str:
    finished = invoke("train", *args)
    assert finished.exit_code == 0, finished.stderr
    return finished.stderr


def train_small(*options: object) -> str:
    """Train on the rows, two prompts a step, and return what the command says."""
    return train("rows.jsonl", *SMALL, *options)


def weights(run: str, step: int) -> dict:
    return load_file(f"{run}/checkpoints/step-{step}/model.safetensors")


def prompts(run: str, step: int) -> list[str]:
    lines = Path(run, "rollouts", f"step-{step:06d}.jsonl").read_text().splitlines()
    return [json.loads(line)["prompt"] for line in lines]


def edit(run: str, **changes: object) -> dict:
    """Change the settings of a run on disk. None removes a setting."""
    path = Path(run, "config.yaml")
    config = yaml.safe_load(path.read_text())
    for name, value in changes.items():
        section, _, key = name.partition("_")
        if value is None:
            config[section].pop(key)
        else:
            config[section][key] = value
    path.write_text(yaml.safe_dump(config))
    return config


def test_a_run_goes_on_with_the_moment_at_which_it_began():
    """A template that tells microseconds, so that every moment is another day."""
    model = dated("%Y %f")
    train_small("--model", model, "--steps", 1, "--out", "a")
    date = yaml.safe_load(Path("a/config.yaml").read_text())["data"]["date"]
    train_small("--model", model, "--steps", 2, "--out", "whole", "--set", f"data.date={date}")
    train("--resume", "a", "--steps", 2)
    assert prompts("a", 2) == prompts("whole", 2)
    assert len({text.partition("<|")[0] for text in prompts("a", 1) + prompts("a", 2)}) == 1
    first, second = weights("a", 2), weights("whole", 2)
    assert all(first[name].equal(second[name]) for name in first)
    assert Path("a/rollouts/step-000002.jsonl").read_bytes() == (
        Path("whole/rollouts/step-000002.jsonl").read_bytes()
    )
    # Another run of the same settings begins at another moment, and so does one from its weights.
    train("--from", "a", "--steps", 1, "--out", "b")
    assert prompts("b", 1)[0].partition("<|")[0] != prompts("a", 1)[0].partition("<|")[0]


def test_a_run_that_kept_no_date_is_tried_with_that_of_its_first_file():
    train_small("--model", dated(DAY), "--steps", 1, "--out", "a", *DATE)
    assert prompts("a", 1)[0].startswith("2020-05-06 <|user|>")
    edit("a", data_date=None, rollout_ends=None)
    line = invoke("train", "--resume", "a", "--steps", 2).stderr.splitlines()[-1]
    assert line.startswith("rlvr: error: the problems of rows.jsonl, or prompts")
    assert "or prompts (their template writes 20" in line
    assert "--set data.date=… is another) are not those that the run began with" in line
    first = Path("a/rollouts/step-000001.jsonl")
    os.utime(first, (1588766400, 1588766400))  # noon of that day in UTC
    train("--resume", "a", "--steps", 2)
    assert prompts("a", 2)[0].startswith("2020-05-06 <|user|>")
    # What has changed besides the date is refused as ever.
    Path("rows.jsonl").write_text(ROWS.replace("What is 0", "How much is 0"))
    finished = invoke("train", "--resume", "a", "--steps", 3)
    assert (finished.exit_code, "are not those that the run began" in finished.stderr) == (2, True)


def check(*options: object):
    """Check a run on the rows. With so few responses the probe may find no signal, and fail."""
    return invoke("train", "rows.jsonl", *SMALL, "--check", *DATE, *options)


def test_a_check_says_that_the_prompt_has_a_date():
    result = check("--model", dated(DAY))
    assert "; it writes the date, 2020-05-06\n" in result.stderr
    assert "it writes the date" not in check().stderr
    assert "data.date" in refused("train", "rows.jsonl", "--set", "data.date=soon")


def test_an_evaluation_goes_on_with_the_moment_at_which_it_began(monkeypatch):
    command = f"eval rows.jsonl --model {dated('%f')} -n 1 --max-tokens 4 --out a".split()
    add = PartialResult.add
    added = []

    def add_two(self, problems):
        add(self, problems)
        added.extend(problems)
        if len(added) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(PartialResult, "add", add_two)
    assert invoke(*command).exit_code != 0
    monkeypatch.setattr(PartialResult, "add", add)
    repeated = invoke(*command)
    assert (repeated.exit_code, "2 of 4 problems are done already" in repeated.stderr) == (0, True)
    (file,) = Path("a/responses").iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len({row["prompt"].partition(" ")[0] for row in rows}) == 1


# The built-in template ends a turn with <|end|>. Here a response ends with <|user|> alone.
def without_end() -> str:
    tokens = json.loads((TINY / "tokenizer.json").read_text())["added_tokens"]
    user = next(token["id"] for token in tokens if token["content"] == "<|user|>")
    spoils = [edited(name, eos_token_id=user) for name in ("config.json", "generation_config.json")]
    model_at(Path("endless"), *spoils, edited("tokenizer_config.json", eos_token="<|user|>"))
    return "endless"


def ends(run: str) -> list[str]:
    return yaml.safe_load(Path(run, "config.yaml").read_text())["rollout"]["ends"]


def test_the_token_that_ends_a_turn_ends_a_response_and_both_are_named():
    message = train_small("--steps", 1, "--model", without_end(), "--out", "a")
    warning = "endless: its chat template ends a turn with <|end|>, which ends no response of it, "
    way_out = "only <|user|> does; here both do (--set rollout.ends=[] takes it back)"
    assert warning + way_out in message
    assert ends("a") == ["<|end|>"]
    message = train_small(
        "--steps", 1, "--model", "endless", "--set", "rollout.ends=[]", "--out", "b"
    )
    assert ("ends a turn" in message, ends("b")) == (False, [])
    assert "ends a turn" not in train_small("--steps", 1, "--model", "tiny", "--out", "c")
    assert ends("c") == []
    assert "ends a turn" not in train("--resume", "a", "--steps", 2)
    assert ends("a") == ["<|end|>"]
    finished = invoke("train", "rows.jsonl", *SMALL, "--set", "rollout.ends=['<|stop|>']")
    assert finished.stderr.strip().endswith("rollout.ends <|stop|>: tiny has no such token")


def test_a_run_that_has_begun_goes_on_with_its_ends():
    model = without_end()
    for steps, run in ((2, "whole"), (1, "a")):
        train_small("--model", model, "--set", "rollout.ends=[]", "--steps", steps, "--out", run)
    edit("a", rollout_ends=None, data_date=None)  # as an earlier version left it
    assert "ends a turn" not in train("--resume", "a", "--steps", 2)
    first, second = weights("a", 2), weights("whole", 2)
    assert all(first[name].equal(second[name]) for name in first)


def test_an_evaluation_ends_responses_there_too_and_says_so_in_its_fingerprint():
    finished = invoke("eval", "rows.jsonl", "--model", without_end(), "-n", 2, "--out", "out")
    assert finished.exit_code == 0, finished.stderr
    assert "its chat template ends a turn with <|end|>" in finished.stderr
    (result,) = json.loads(Path("out/report.json").read_text())["results"]
    assert result["fingerprint"]["ends"] == ["<|end|>"]
    assert result["cut_off_share"] < 1
