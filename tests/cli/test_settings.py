"""Settings that one can find: the list, the page, help, and names of other programs."""

import json
from pathlib import Path

import pytest
import yaml
from pages import settings_page
from typer.testing import CliRunner

from rlvr_cli.__main__ import _run
from rlvr_cli.cli.main import app
from rlvr_cli.config import Config, flags_of
from rlvr_cli.core.settings import settings_of

ROWS = list(settings_of(Config))


def out(*args: str) -> str:
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_the_page_of_settings_is_fresh():
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text() == settings_page(), "run make settings"


def test_every_setting_is_listed_with_its_meaning_and_default():
    names = [row.name for row in ROWS]
    assert [row.name for row in ROWS if not row.meaning.endswith(".")] == []
    listing = [json.loads(line) for line in out("train", "--settings").splitlines()]
    assert [row["name"] for row in listing] == names
    by_name = {row["name"]: row for row in listing}
    assert by_name["optim.lr"]["default"] == "1e-06"
    assert by_name["optim.lr"]["flag"] == "--lr"
    assert "cosine" in by_name["optim.schedule"]["meaning"]
    assert "k3_k2" in by_name["algorithm.kl"]["meaning"]


def test_a_section_is_listed_alone():
    listing = [json.loads(line) for line in out("train", "--settings", "optim").splitlines()]
    assert {row["name"].split(".")[0] for row in listing} == {"optim"}
    result = CliRunner().invoke(app, ["train", "--settings", "optm"])
    assert (result.exit_code, "known: algo, steps" in result.stderr) == (2, True)


@pytest.mark.parametrize("command", ["train", "eval", "sample"])
def test_help_says_what_the_list_says(command):
    env = {"COLUMNS": "400", "NO_COLOR": "1"}
    output = " ".join(CliRunner().invoke(app, [command, "--help"], env=env).stdout.split())
    for name, item in flags_of(command).items():
        if (command, name) != ("eval", "data") and (command, name) != ("eval", "model"):
            assert item.meaning in output, name


def printed(*args: str) -> dict:
    return yaml.safe_load(out("train", *args, "--print-config"))


def test_kl_moves_estimator_coefficient_and_reference_together():
    assert printed("--algo", "grpo", "--kl", "0")["algorithm"]["kl"] is None
    fixed = {"kind": "fixed"}
    cells = printed("--algo", "dapo", "--kl", "0.01")["algorithm"]["kl"]
    assert (cells["kind"], cells["coef"], cells["reference"]) == ("k3", 0.01, fixed)
    cells = printed("--algo", "ppo", "--kl", "0.3")["algorithm"]["kl"]
    assert (cells["kind"], cells["coef"], cells["place"]) == ("k1", 0.3, "reward")
    cells = printed("--algo", "dapo", "--kl", "0.5", "--set", "algorithm.kl=k2")["algorithm"]["kl"]
    assert (cells["kind"], cells["coef"]) == ("k2", 0.5)


def test_print_config_shows_what_runs_here(monkeypatch):
    monkeypatch.setattr("rlvr_cli.setup.plan.default_device", lambda: "cpu")
    config = printed("gsm8k", "--set", "data.prompt=boxed")
    assert (config["data"]["prompt"], config["data"]["answer_format"]) == ("boxed", "boxed")
    config = printed("gsm8k")
    assert config["data"]["prompt"] == "plain"  # of the built-in policy
    assert (config["engine"], config["optim"]["precision"]) == ("transformers", "float32")
    assert printed("a.jsonl", "--model", "some/model")["data"]["prompt"] is None
    assert printed("gsm8k", "--model", "some/model")["data"]["prompt"] == "think_answer"
    config = printed("--set", "optim.offload=all")  # which only a machine with a GPU can run
    assert (config["engine"], config["optim"]["precision"]) == ("auto", "auto")


def test_print_config_is_what_config_reads(tmp_path):
    words = (
        "train a.jsonl b.csv --prompt boxed --eval-every 5 --lr 1e-4 --field answer=a[0].b "
        "--field id=key --set data.chat.enable_thinking=false --print-config --system"
    )
    text = out(*words.split(), "Be brief.")
    config = yaml.safe_load(text)
    assert config["data"]["source"] == ["a.jsonl", "b.csv"]
    assert config["data"]["fields"] == {"answer": "a[0].b", "id": "key"}
    assert (config["data"]["system"], config["data"]["prompt"]) == ("Be brief.", "boxed")
    assert config["data"]["chat"] == {"enable_thinking": False}
    assert (config["eval"]["every"], config["optim"]["lr"]) == (5, 1e-4)
    (tmp_path / "c.yaml").write_text(text)
    assert out("train", "--config", str(tmp_path / "c.yaml"), "--print-config") == text


def test_a_system_turn_may_stand_in_a_file(tmp_path):
    (tmp_path / "s.txt").write_text("You are terse.\n")
    assert printed("--system", str(tmp_path / "s.txt"))["data"]["system"] == "You are terse."
    result = CliRunner().invoke(app, ["train", "--system", "gone.txt", "--print-config"])
    assert (result.exit_code, "--system gone.txt: cannot be read" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("eval --k 1,x", "--k x: give numbers from 1 on, as --k 1,4,16"),
        ("eval --k 0", "--k 0: give numbers"),
        ("eval --k 1,,4", "--k : give numbers"),
        ("eval --k 1,64", "--k 64: larger than the 4 samples a problem"),
        ("train --field answer", "--field answer: write it as NAME=path"),
        ("train --field gold=a", "--field gold=a: write it as NAME=path"),
        ("train --kl -1", "--kl -1: algorithm.kl must be 0 or more, not -1"),
        (
            "train --kl 0.1 --set algorithm.kl.coef=0.2",
            "--kl 0.1 and --set algorithm.kl.coef=0.2 set one coefficient; leave one out",
        ),
        ("train --kl 0 --set algorithm.kl=k2", "--kl 0 and --set algorithm.kl=k2 set one"),
        ("train --kl 0.1 --set algorithm.kl=none", "--kl 0.1 and --set algorithm.kl=none set one"),
        ("train --kl x", "--kl x: algorithm.kl cannot be 'x'; choose from k1, "),
        ("train --steps 1.5", "--steps 1.5: steps must be a whole number, not 1.5"),
        ("train --steps 0", "--steps 0: steps must be 1 or more, not 0"),
        ("train --lr nan", "--lr nan: optim.lr must be a finite number, not nan"),
        ("eval --top-p 2", "eval.top_p must be 1 or less, not 2"),
        (
            "train --engine vlm",
            "engine must be 'auto', 'vllm', 'transformers' or 'server', not 'vlm'",
        ),
        ("eval AMIE-24", "AMIE-24: no such problem set; did you mean aime24? Or give one of"),
        ("train gsmk8", "did you mean gsm8k?"),
    ],
)
def test_a_bad_value_is_one_line_in_our_words(capsys, args, message):
    assert _run(args.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert "nput should" not in line
