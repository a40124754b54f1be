"""Run directories from strangers or after bad luck: what `--resume` makes of them."""

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import torch
from forked import forked
from fuzz import THOROUGH
from limits import Content, Situation, check, table
from safetensors.torch import load_file, save_file

from rlvr_cli.core.files import sha256
from rlvr_cli.runs.checkpoint import intact_checkpoints
from rlvr_cli.runs.run_dir import RunDirectory

RESUME = ("train", "--resume", "run", "-q")
ANY = r"run/.*"
STEP = "run/checkpoints/step-2"
STATE, TENSORS = f"{STEP}/trainer/state.json", f"{STEP}/trainer/state.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run of two small steps on piped problems, both checkpoints kept."""
    place = tmp_path_factory.mktemp("whole")
    rows = [
        {"problem": f"Start at {n}, keep last digits: (a) +2", "answer": n + 2} for n in range(4)
    ]
    options = ("--steps", "2", "--prompts", "2", "-n", "2", "--max-tokens", "3", "--out", "run")
    stdin = "".join(json.dumps(row) + "\n" for row in rows).encode()
    result = forked(("train", "-", "--algo", "grpo", *options, "-q"), place, stdin)
    assert result.rc == 0, result.err
    return place / "run"


Damage = Callable[[Path], object]


def resumed(
    name: str, damage: Damage, says: str, rc: int = 2, changes: str = r"run/\.lock"
) -> Situation:
    """`damage` gets the directory above a copy of the run."""
    return Situation(name, RESUME, says, rc, {"damaged": damage}, changes=changes)


def goes_on(name: str, damage: Damage, says: str = "done: 2 steps") -> Situation:
    return resumed(name, damage, says, 0, ANY)


def falls_back(name: str, damage: Damage, says: str) -> Situation:
    """The newest checkpoint is not taken, and the run ends as it would have."""
    return resumed(name, damage, f"step-2 is damaged: .*{says}", 0, ANY)


def write(name: str, content: str | bytes) -> Damage:
    def damage(place: Path) -> None:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).unlink(missing_ok=True)
        (place / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return damage


def sealed(damage: Damage, step: str = STEP) -> Damage:
    """Damage that the checksums do not tell."""

    def then_seal(place: Path) -> None:
        damage(place)
        path = place / step / "manifest.json"
        listing = json.loads(path.read_text())
        path.write_text(json.dumps({name: sha256(place / step / name) for name in listing}))

    return then_seal


def state(change: Callable[[dict], object]) -> Damage:
    def damage(place: Path) -> None:
        values = json.loads((place / STATE).read_text())
        change(values)
        (place / STATE).write_text(json.dumps(values))

    return sealed(damage)


def tensors(change: Callable[[dict], object]) -> Damage:
    def damage(place: Path) -> None:
        actual = load_file(place / TENSORS)
        change(actual)
        save_file(actual, place / TENSORS)

    return sealed(damage)


def manifest(change: Callable[[dict, Path], object]) -> Damage:
    def damage(place: Path) -> None:
        path = place / STEP / "manifest.json"
        listing = json.loads(path.read_text())
        change(listing, place)
        path.write_text(json.dumps(listing))

    return damage


def link(name: str, target: str) -> Damage:
    def damage(place: Path) -> None:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            path.rename(place / "moved")
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        (place / "outside").mkdir(exist_ok=True)
        for retained in ("kept", "step-000099.jsonl", ".x.partial", "model.safetensors"):
            (place / "outside" / retained).write_text("not ours")

    return damage


def fifo(name: str) -> Damage:
    def damage(place: Path) -> None:
        (place / name).unlink(missing_ok=True)
        os.mkfifo(place / name)

    return damage


def edit(old: str, new: str, name: str = "run/config.yaml") -> Damage:
    def damage(place: Path) -> None:
        text = (place / name).read_text()
        assert re.search(old, text, re.MULTILINE)
        (place / name).write_text(re.sub(old, new, text, count=1, flags=re.MULTILINE))

    return damage


def tear(name: str, size: int = 64) -> Damage:
    """The last block of a file, as a power cut may leave it."""

    def damage(place: Path) -> None:
        content = (place / name).read_bytes()
        (place / name).write_bytes(content[:-size] + b"\0" * min(size, len(content)))

    return damage


def lines(change: Callable[[list[bytes]], list[bytes]]) -> Damage:
    def damage(place: Path) -> None:
        path = place / "run/metrics.jsonl"
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return damage


def rows(change: Callable[[dict], object]) -> Damage:
    def changed(line: bytes) -> bytes:
        row = json.loads(line)
        change(row)
        return json.dumps(row).encode() + b"\n"

    return lines(lambda listing: [changed(line) for line in listing])


def both(*damages: Damage) -> Damage:
    return lambda place: [damage(place) for damage in damages]


def copy_step(source: int, target: int) -> Damage:
    def damage(place: Path) -> None:
        directory = place / "run/checkpoints"
        shutil.rmtree(directory / f"step-{target}", ignore_errors=True)
        shutil.copytree(directory / f"step-{source}", directory / f"step-{target}")

    return damage


def deep(opening: str, closing: str = "", count: int = 100_000) -> str:
    return opening * count + closing * count


LINKS = [
    goes_on(
        "a link where a file is written aside", link("run/.config.yaml.partial", "../outside/kept")
    ),
    goes_on("a link to a directory there", link("run/.x.partial", "../outside")),
    goes_on("a link named as removed", link("run/checkpoints/.step-9.removed", "../../outside")),
    goes_on("a link as summary", link("run/summary.json", "../outside/kept")),
    goes_on("a link as curves", link("run/curves.txt", "../outside/kept")),
    goes_on("a link as metrics", link("run/metrics.jsonl", "../outside/kept")),
    goes_on("a link as a rollout", link("run/rollouts/step-000009.jsonl", "../../outside/kept")),
    resumed("a link as rollouts", link("run/rollouts", "../outside"), "rollouts: .*not followed"),
    resumed("a link as checkpoints", link("run/checkpoints", "../moved"), "checkpoints: .*not fol"),
    resumed("a link as a checkpoint", link(STEP, "../../moved"), "step-2: .*not followed"),
    resumed("a link as lock", link("run/.lock", "../outside/kept"), "cannot be written to"),
    resumed("a FIFO as lock", fifo("run/.lock"), "cannot be written to"),
    resumed(
        "a directory as lock",
        lambda p: [(p / "run/.lock").unlink(), (p / "run/.lock").mkdir()],
        "cannot be w",
    ),
    goes_on("a FIFO where a file is written aside", fifo("run/.config.yaml.partial")),
    goes_on(
        "a directory there",
        lambda place: (place / "run/.config.yaml.partial/x").mkdir(parents=True),
    ),
    goes_on(
        "a directory as a rollout", lambda place: (place / "run/rollouts/step-000009.jsonl").mkdir()
    ),
    goes_on("a FIFO as metrics", fifo("run/metrics.jsonl"), "0 of 2 steps can be read"),
    resumed("a FIFO as config", fifo("run/config.yaml"), "no config.yaml in it"),
    resumed("a FIFO as problems", fifo("run/problems.jsonl"), "not a regular file"),
    resumed("a device as problems", link("run/problems.jsonl", "/dev/zero"), "not a regular file"),
    resumed(
        "a file as rollouts",
        lambda p: [shutil.rmtree(p / "run/rollouts"), (p / "run/rollouts").write_text("")],
        "rollouts: not a directory",
    ),
]
CONFIGS = [
    resumed(
        "another seed",
        edit(r"^seed: .*", "seed: 7"),
        "edited: seed is 7 there, and the run computes with 0",
    ),
    resumed(
        "another learning rate", edit(r"^  lr: .*", "  lr: 0.5"), "edited: optim.lr is 0.5 there"
    ),
    resumed(
        "other tokens",
        edit(r"^  max_tokens: .*", "  max_tokens: 4"),
        "edited: rollout.max_tokens is 4",
    ),
    resumed(
        "another algorithm's cell",
        edit(r"^    high: .*", "    high: 0.5"),
        "edited: algorithm.surrogate.high is 0.5",
    ),
    resumed(
        "a key that is left out",
        edit(r"^  temperature: .*\n", "  temperature: 0.9\n"),
        "edited: rollout.temperature is 0.9",
    ),
    resumed(
        "another answer format",
        edit(r"^  answer_format: .*", "  answer_format: boxed"),
        "edited: data.answer_format is 'boxed'",
    ),
    resumed("a torn config", tear("run/config.yaml"), "config.yaml: not valid YAML"),
    resumed("a config of NUL", write("run/config.yaml", b"\0" * 4096), "not valid YAML"),
    resumed("an empty config", write("run/config.yaml", ""), "edited: "),
    resumed("a config with aliases", edit(r"^seed: .*", "seed: &a [*a]"), "aliases"),
    resumed("a deep config", write("run/config.yaml", deep("[")), "nested|more than"),
    resumed(
        "a config with a key twice", edit(r"^seed: .*", "seed: 0\nseed: 1"), "seed stands twice"
    ),
    goes_on("what may change", edit(r"^  keep: .*", "  keep: 1")),
    resumed(
        "config.yaml gone", lambda place: (place / "run/config.yaml").unlink(), "no config.yaml"
    ),
]
MANIFESTS = [
    falls_back("an empty manifest", write(f"{STEP}/manifest.json", "{}"), "lists no config.json"),
    falls_back(
        "a manifest that is no object", write(f"{STEP}/manifest.json", "[1]"), "cannot be read"
    ),
    falls_back(
        "a deep manifest",
        write(f"{STEP}/manifest.json", deep('{"a":', "", 90_000)),
        "cannot be read",
    ),
    falls_back(
        "a manifest of deep lists", write(f"{STEP}/manifest.json", deep("[", "]")), "cannot be read"
    ),
    falls_back("a large manifest", write(f"{STEP}/manifest.json", " " * (17 << 20)), "larger than"),
    falls_back("a manifest of NUL", tear(f"{STEP}/manifest.json", 10**6), "cannot be read"),
    falls_back("a torn manifest", tear(f"{STEP}/manifest.json"), "cannot be read"),
    falls_back(
        "a manifest with a name twice",
        edit(r"\{", '{"config.json": "0", ', f"{STEP}/manifest.json"),
        "cannot be read",
    ),
    falls_back("a manifest that is a FIFO", fifo(f"{STEP}/manifest.json"), "not a regular file"),
    falls_back(
        "a device listed", manifest(lambda m, p: m.update({"/dev/zero": "0"})), "lies outside"
    ),
    falls_back(
        "a file outside listed",
        manifest(lambda m, p: m.update({"../../config.yaml": "0"})),
        "lies outside",
    ),
    falls_back(
        "a FIFO listed",
        both(fifo(f"{STEP}/pipe"), manifest(lambda m, p: m.update(pipe="0"))),
        "not a regular file",
    ),
    falls_back(
        "a link listed",
        both(link(f"{STEP}/zero", "/dev/zero"), manifest(lambda m, p: m.update(zero="0"))),
        "outside",
    ),
    falls_back(
        "a directory listed", manifest(lambda m, p: m.update({"./": "0"})), "not a regular file"
    ),
    falls_back("a NUL listed", manifest(lambda m, p: m.update({"a\0b": "0"})), "cannot be read"),
    falls_back(
        "a name too long listed",
        manifest(lambda m, p: m.update({"x" * 9000: "0"})),
        "name too long",
    ),
    falls_back(
        "escapes listed", manifest(lambda m, p: m.update({"\x1b]0;owned\x07": "0"})), "No such file"
    ),
    falls_back(
        "a number as checksum",
        manifest(lambda m, p: m.update({"config.json": 7})),
        "config.json differs",
    ),
    falls_back(
        "no weights listed", manifest(lambda m, p: m.pop("model.safetensors")), "lists no model"
    ),
    falls_back(
        "no state listed",
        manifest(lambda m, p: m.pop("trainer/state.json")),
        "lists no trainer/state.json",
    ),
    falls_back(
        "no tensors listed",
        manifest(lambda m, p: m.pop("trainer/state.safetensors")),
        "lists no trainer",
    ),
]
STATES = [
    falls_back("a checkpoint of another step", copy_step(1, 2), "it is of step 1"),
    resumed(
        "a checkpoint renamed",
        both(copy_step(2, 3), edit(r"^steps: 2", "steps: 3")),
        "step-3 is damaged: .*it is of step 2",
        0,
        ANY,
    ),
    falls_back("a state of NUL", sealed(tear(STATE, 10**7)), "state.json"),
    falls_back("a state that is a list", sealed(write(STATE, "[]")), "state.json"),
    falls_back("a deep state", sealed(write(STATE, deep("["))), "state.json"),
    falls_back("a state without a key", state(lambda s: s.pop("cursor")), "cursor is missing"),
    falls_back("a key more", state(lambda s: s.update(x=1)), "x is not known"),
    falls_back("a cursor below zero", state(lambda s: s.update(cursor=-1)), "cursor must be"),
    falls_back("a cursor that is a text", state(lambda s: s.update(cursor="1")), "cursor must be"),
    falls_back("a huge cursor", state(lambda s: s.update(cursor=10**300)), "cursor must be"),
    falls_back("no progress", state(lambda s: s.pop("progress")), "progress is missing"),
    falls_back("progress that is none", state(lambda s: s.update(progress=[])), "progress must be"),
    falls_back(
        "seconds that are none",
        state(lambda s: s["progress"].update(seconds=float("nan"))),
        "seconds must be",
    ),
    falls_back(
        "a best without a step",
        state(lambda s: s["progress"].update(best={"pass@1": 1.0})),
        "best.step",
    ),
    falls_back(
        "a coefficient that is none", state(lambda s: s.update(kl_coef=float("inf"))), "kl_coef"
    ),
    falls_back(
        "a group of no prompt",
        state(lambda s: s.update(carried=[{"prompt": 10**6, "weight_version": 0, "rollouts": []}])),
        "IndexError",
    ),
    falls_back(
        "a group of a prompt below zero",
        state(lambda s: s.update(carried=[{"prompt": -1, "weight_version": 0, "rollouts": []}])),
        "carried.0.prompt",
    ),
    falls_back(
        "a group without rollouts", state(lambda s: s.update(carried=[{"prompt": 0}])), "carried.0"
    ),
    falls_back(
        "another optimizer", state(lambda s: s["optimizer"][0].update(x=1)), "optimizer's settings"
    ),
    falls_back("no optimizer", state(lambda s: s.update(optimizer=[])), "optimizer's settings"),
    falls_back(
        "an optimizer's parameters",
        state(lambda s: s["optimizer"][0].update(params=[0])),
        "cannot be read",
    ),
    falls_back(
        "a generator of 3 bytes",
        tensors(lambda t: t.update(torch_rng=t["torch_rng"][:3])),
        "RuntimeError",
    ),
    falls_back("no generator", tensors(lambda t: t.pop("torch_rng")), "KeyError"),
    falls_back(
        "a tensor of no parameter",
        tensors(lambda t: t.update({"optimizer.x.exp_avg": torch.zeros(1)})),
        "ValueError",
    ),
    falls_back(
        "a moment of another shape",
        tensors(lambda t: t.update({"optimizer.0.exp_avg": torch.zeros(1)})),
        "another shape",
    ),
    falls_back(
        "a moment of no parameter",
        tensors(lambda t: t.update({"optimizer.999.exp_avg": torch.zeros(1)})),
        "IndexError",
    ),
    falls_back("tensors that are none", sealed(write(TENSORS, b"\xff" * 64)), "cannot be read"),
    falls_back("tensors of nothing", sealed(write(TENSORS, b"")), "cannot be read"),
    falls_back(
        "weights that are none",
        sealed(write(f"{STEP}/model.safetensors", b"\0" * 99)),
        "cannot be read",
    ),
    resumed(
        "other problems",
        both(edit("Start at 1", "Start at 3", "run/problems.jsonl")),
        "not those that the run began with",
    ),
    resumed(
        "both damaged",
        both(tear(STATE), tear(STATE.replace("step-2", "step-1"))),
        "every checkpoint is damaged",
    ),
    falls_back("a torn state", tear(STATE), "the checksum of trainer/state.json differs"),
    falls_back(
        "torn weights", tear(f"{STEP}/model.safetensors", 4096), "checksum of model.safetensors"
    ),
    falls_back(
        "a torn tokenizer", tear(f"{STEP}/tokenizer.json", 4096), "checksum of tokenizer.json"
    ),
    goes_on(
        "a step of so many digits", lambda p: (p / f"run/checkpoints/step-{'9' * 200}").mkdir()
    ),
    goes_on("a step in other digits", lambda p: (p / "run/checkpoints/step-٣").mkdir()),
]
GONE = "metrics.jsonl: {} of 2 steps can be read"
METRICS = [
    goes_on("metrics gone", lambda place: (place / "run/metrics.jsonl").unlink(), GONE.format(0)),
    goes_on("metrics empty", write("run/metrics.jsonl", ""), GONE.format(0)),
    goes_on("metrics binary", write("run/metrics.jsonl", bytes(range(256)) * 99), GONE.format(0)),
    goes_on("metrics of NUL", write("run/metrics.jsonl", b"\0" * 8192), GONE.format(0)),
    goes_on("metrics torn", tear("run/metrics.jsonl"), GONE.format(1)),
    goes_on(
        "a first line torn", lines(lambda m: [b"\0" * (len(m[0]) - 1), b"\n", m[1]]), GONE.format(1)
    ),
    goes_on("a line without its step", rows(lambda r: r.pop("step")), GONE.format(0)),
    goes_on("steps that are none", rows(lambda r: r.update(step=float("-inf"))), GONE.format(0)),
    goes_on("steps that are texts", rows(lambda r: r.update(step="1")), GONE.format(0)),
    goes_on("steps below one", rows(lambda r: r.update(step=0)), GONE.format(0)),
    goes_on("every step the same", rows(lambda r: r.update(step=1)), GONE.format(1)),
    goes_on("steps the wrong way round", lines(lambda m: m[::-1]), GONE.format(1)),
    goes_on("a line twice", lines(lambda m: [m[0], m[0], m[1]])),
    goes_on(
        "lines of later steps", lines(lambda m: [*m, m[1].replace(b'"step": 2', b'"step": 3')])
    ),
    goes_on("no verdicts", rows(lambda r: r.pop("verdicts")), GONE.format(0)),
    goes_on("verdicts that are none", rows(lambda r: r.update(verdicts=[1])), GONE.format(0)),
    goes_on("texts for numbers", rows(lambda r: r.update(entropy="low")), GONE.format(0)),
    goes_on("lists for numbers", rows(lambda r: r.update(tokens_sampled=[1])), GONE.format(0)),
    goes_on(
        "numbers that JSON has not", rows(lambda r: r.update(reward=float("nan"))), GONE.format(0)
    ),
    goes_on("a deep line", write("run/metrics.jsonl", deep("[") + "\n"), GONE.format(0)),
    goes_on("metrics cut in a line", lines(lambda m: [m[0], m[1][:30]]), GONE.format(1)),
]
ROLLOUT = "run/rollouts/step-000001.jsonl"
CHANGED = "run/rollouts: not as the run wrote it: "
DIFFERS = f"{CHANGED}the checksum of step-000001.jsonl differs"
PROBLEMS = [
    resumed("problems torn", tear("run/problems.jsonl", 20), "problems.jsonl:4: "),
    resumed("problems of NUL", write("run/problems.jsonl", b"\0" * 512), "problems.jsonl:1: "),
    resumed("no problems", write("run/problems.jsonl", ""), "no problems in it"),
    resumed(
        "a problem that is none", write("run/problems.jsonl", '{"id": 1}\n'), "problems.jsonl:1: "
    ),
    resumed("problems gone", lambda place: (place / "run/problems.jsonl").unlink(), "No such file"),
    goes_on(
        "rollouts gone",
        lambda place: shutil.rmtree(place / "run/rollouts"),
        f"{CHANGED}manifest.json: No such file",
    ),
    goes_on(
        "a rollout edited",
        edit("wrong|truncated|bad_format|no_answer", "correct", ROLLOUT),
        DIFFERS,
    ),
    goes_on("a rollout torn", tear(ROLLOUT), DIFFERS),
    goes_on("a rollout gone", lambda place: (place / ROLLOUT).unlink(), f"{CHANGED}.*No such file"),
    goes_on("a rollout that is a FIFO", fifo(ROLLOUT), f"{CHANGED}.*not a regular file"),
    goes_on("a link as a rollout of before", link(ROLLOUT, "../../outside/kept"), f"{CHANGED}"),
    goes_on("their checksums torn", tear("run/rollouts/manifest.jsonl"), f"{CHANGED}.*lists no"),
    goes_on(
        "a link as their checksums",
        link("run/rollouts/manifest.jsonl", "../../outside/kept"),
        CHANGED,
    ),
    goes_on(
        "rollouts of other names",
        lambda place: (place / "run/rollouts/step-1-2-x.jsonl").write_text("x"),
    ),
]


def seen_at_once(name: str, says: str, run: Path) -> bool:
    """Whether the function that reads the file says so by itself, which saves a process: all of
    them run through the command line in `make fuzz`."""
    if says.startswith("step-2 is damaged"):
        message: list[str] = []
        actual = next(intact_checkpoints(run, message.append), None)
        if message:
            assert actual is not None
            assert actual.step == 1
            assert re.search(says, message[0])
        return bool(message)
    if counted := re.fullmatch(GONE.format(r"(\d)"), says):
        with closing(RunDirectory(run)) as opened:
            rows = opened.truncate_to(2)
        assert len(rows) == int(counted[1])
        return "gone" not in name and "binary" not in name
    return False


@pytest.mark.parametrize("command", ["eval --responses", "eval --judge math-verify --responses"])
def test_a_rollout_edited_is_noticed_by_whoever_reads_it(command, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    requested = (*command.split(), ROLLOUT, "-q")
    read = Situation("as it was", requested, "pass@1", rc=0)
    assert "not as the run" not in check(read, tmp_path).err
    edit("wrong|truncated|bad_format|no_answer", "correct", ROLLOUT)(tmp_path)
    check(Situation("edited", requested, DIFFERS, rc=0), tmp_path)


@table([*LINKS, *CONFIGS, *MANIFESTS, *STATES, *METRICS, *PROBLEMS])
def test_situation(situation: Situation, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    damage: Content = situation.files["damaged"]
    assert callable(damage)
    damage(tmp_path)
    if not THOROUGH and seen_at_once(situation.name, situation.says, tmp_path / "run"):
        return
    result = check(Situation(**{**vars(situation), "files": {}}), tmp_path)
    if result.rc == 0:
        left = {path.name for path in (tmp_path / "run").rglob(".*")}
        assert left == {".lock"}
        final = "checkpoints/step-2/model.safetensors"
        steps = {path.name for path in (tmp_path / "run/checkpoints").glob("step-?")}
        if steps == {"step-1", "step-2"} and "may change" not in situation.name:
            assert (tmp_path / "run" / final).read_bytes() == (whole / final).read_bytes()
