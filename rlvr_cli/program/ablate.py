"""`rlvr ablate`: its plan from the command line or a file, and its results."""

import difflib
import json
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.config import SETTINGS, Config, flags_of, flat_settings
from rlvr_cli.config.foreign import foreign_answer
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import (
    lock_directory,
    read_regular,
    reading,
    sha256,
    try_place,
    writing,
)
from rlvr_cli.core.limits import usable_cores
from rlvr_cli.core.text import shortened
from rlvr_cli.core.yaml_text import LARGEST_YAML, read_yaml
from rlvr_cli.evaluation.curves import Figure
from rlvr_cli.model.loading import default_device
from rlvr_cli.program.resolve import load, read_flags, shipped
from rlvr_cli.program.train import load_training_problems
from rlvr_cli.rewards.rewarder import Rewarder
from rlvr_cli.runs.ablation import ARM_NAME, AblationPlan, make_runs, probe
from rlvr_cli.setup.parts import load_parts
from rlvr_cli.show.ablation import publish_ablation

_SEEDS = re.compile(r"\s*\d{1,9}\s*(,\s*\d{1,9}\s*)*", re.ASCII)
_EVERY = 10
"""Steps between two measurements, unless the plan says otherwise."""
_NAME = re.compile(ARM_NAME)
_OF_ABLATE = {"algo": "--base", "seed": "--seeds"}
"""Settings that a flag of `rlvr ablate` sets in all runs."""
_EQUAL = (
    "model",
    "parent",
    "data.",
    "eval.",
    "seed",
    "engine",
    "rollout.max_tokens",
    "rollout.ends",
)
"""How the names begin of the settings that are equal in all arms."""
_METHOD = ("data.rest",)
"""Settings among them in which arms may differ, since they are a method of training."""


class Wishes(BaseModel):
    """The request for an ablation, on the command line or in a file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: str = ""
    figure: Figure = "entropy"
    """What the fourth panel of the picture shows."""
    data: str | list[str] | None = None
    model: str | None = None
    base: str = "dapo"
    """A preset, or NAME: SETTINGS."""
    arms: dict[str, str] = {}
    """The settings of each arm, as section.key=value with spaces between them."""
    seeds: list[int] | None = None
    steps: int | None = None
    set: list[str] = []
    """Settings of all arms."""


def is_plan(source: str) -> bool:
    """Return whether a source is a plan: a YAML file with arms, and not a problem set."""
    path = shipped(Path(source))
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    with reading(path):
        return b"\narms:" in b"\n" + read_regular(path, LARGEST_YAML)


def read_wishes(path: Path) -> Wishes:
    """Read a plan. Raises UserError, with the line if the YAML is not valid."""
    return read_yaml(shipped(path), Wishes)


def split_arm(text: str) -> tuple[str, str]:
    """Split `NAME: SETTINGS`. Raises UserError if it is not that."""
    name, colon, settings = text.partition(":")
    if not colon and text.strip() in ALGORITHMS:
        return text.strip(), f"algo={text.strip()}"
    if not colon or "=" in name:
        raise UserError(
            f"--arm {shortened(text)}: write it as NAME: section.key=value, or as an algorithm "
            "(rlvr train --list)"
        )
    return name.strip(), settings.strip()


def split_flags(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split words of a command line into those that are no flags, and settings as `--set` has them,
    made from flags of `rlvr train` with their values. Raises UserError for a flag that it lacks."""
    flags = {setting.use.flag or "": setting for setting in flags_of("train").values()}
    flags["-n"] = flags["--samples"]
    others = []
    values: dict[str, list[str]] = {}
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if not word.startswith("-") or word == "-":
            others.append(word)
            continue
        flag, equals, value = word.partition("=")
        if flag not in flags:
            similar = difflib.get_close_matches(flag, flags, 1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            answer = foreign_answer(flag.lstrip("-"))
            raise UserError(answer or f"{shortened(flag)}: no flag of rlvr train{hint}")
        setting = flags[flag]
        if setting.annotation is bool:
            value = value or "true"
        elif not equals and queue:
            value = queue.pop(0)
        elif not equals:
            raise UserError(f"{flag}: give its value")
        values.setdefault(setting.name, []).append(value)
    settings = []
    for name, texts in values.items():
        takes_several = "tuple" in str(SETTINGS[name].annotation)
        value = json.dumps(texts) if takes_several else texts[-1]
        settings.append(f"{name}={value}")
    return others, settings


def settings_of_all(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split the words of `rlvr ablate` into sources of problems and settings of all runs. Raises
    UserError for a flag in whose place the command has another."""
    sources, settings = split_flags(words)
    for setting in settings:
        name = setting.partition("=")[0]
        if name in _OF_ABLATE:
            raise UserError(f"ablate: {_OF_ABLATE[name]} sets {name}")
    return sources, settings


def merged(
    wishes: Wishes,
    *,
    data: list[str] | None = None,
    base: str | None = None,
    seeds: list[int] | None = None,
    model: str | None = None,
    sets: Iterable[str] = (),
    arms: Iterable[str] = (),
) -> Wishes:
    """Return the wishes of a file with those of the command line, which win.

    Raises UserError for two arms of one name.
    """
    all_arms = dict(wishes.arms)
    for text in arms:
        name, settings = split_arm(text)
        if name in all_arms:
            raise UserError(f"--arm {shortened(text)}: there is an arm {name} already")
        all_arms[name] = settings
    options = {"data": data, "base": base, "seeds": seeds, "model": model}
    updates = {name: value for name, value in options.items() if value is not None}
    all_sets = [*wishes.set, *sets]
    return wishes.model_copy(update={**updates, "arms": all_arms, "set": all_sets})


def read_seeds(text: str | None) -> list[int] | None:
    """Return the seeds of `0,1,2`. Raises UserError if it is not that."""
    if text is None:
        return None
    if not _SEEDS.fullmatch(text):
        raise UserError(f"--seeds {shortened(text)}: give numbers, as --seeds 0,1,2,3,4")
    return [int(number) for number in text.split(",")]


def plan_of(wishes: Wishes, out: Path | None, steps: int | None = None) -> AblationPlan:
    """Resolve each arm to its settings, with as many steps as all shall have. Raises UserError for
    arms that cannot be compared."""
    base, base_settings = _base_of(wishes.base)
    seeds = tuple(dict.fromkeys(wishes.seeds if wishes.seeds is not None else range(5)))
    if len(seeds) < 2:
        raise UserError("--seeds: one seed tells no arm from chance, so there is no interval")
    if base in wishes.arms:
        raise UserError(f"--arm {base}: the base has this name; give the arm another")
    if not wishes.arms:
        raise UserError("ablate: nothing to compare; give --arm 'NAME: section.key=value'")
    texts = {base: "", **wishes.arms}
    shared = [] if steps is None else [f"steps={steps}"]
    arms = {}
    for name, text in texts.items():
        if not _NAME.fullmatch(name):
            raise UserError(
                f"--arm {shortened(name)}: a name has letters, digits and . _ + -, at most 40"
            )
        settings = [*_words(name, text), *shared]
        arms[name] = _resolved(name, wishes, base_settings, settings)
        if name != base:
            _check_arm(name, arms[name], base, arms[base])
    sources = arms[base].data.sources
    if "-" in sources:
        raise UserError("ablate -: every run reads the problems, so they need a file")
    directory = out or Path("runs") / f"ablate-{base}-{Path(sources[0]).stem}"
    return AblationPlan(
        base=base,
        arms=arms,
        seeds=seeds,
        out=directory,
        title=wishes.title,
        figure=wishes.figure,
    )


def _base_of(text: str) -> tuple[str, list[str]]:
    """Return the name of the base and its settings."""
    if ":" not in text:
        return text, [f"algo={text}"]
    name, settings = split_arm(text)
    return name, _words(name, settings)


def _words(name: str, text: str) -> list[str]:
    """Return the settings of an arm, which may be written as flags of `rlvr train`."""
    try:
        others, settings = split_flags(shlex.split(text))
    except (ValueError, UserError) as error:
        raise UserError(f"--arm {shortened(name)}: {error}") from None
    return [*others, *settings]


def _resolved(
    name: str, wishes: Wishes, base_settings: Sequence[str], settings: Sequence[str]
) -> Config:
    """Return the configuration of an arm.

    An arm with an algorithm of its own takes nothing of the base's. Files with custom functions
    are pinned to their present text, so that no two versions are compared as one.
    """
    inherited = list(base_settings)
    if any(setting.startswith("algo=") for setting in settings):
        inherited = [text for text in inherited if not text.startswith("algo")]
    sets = [f"eval.every={_EVERY}", *wishes.set, *inherited, *settings]
    sources = [wishes.data] if isinstance(wishes.data, str) else wishes.data or []
    values = {"data": sources, "model": wishes.model, "steps": wishes.steps}
    try:
        flags = read_flags(values, "train")
        sets += _sources(load("train", flags, sets))
        return load("train", flags, sets)
    except UserError as error:
        raise UserError(f"arm {name}: {error}") from None


def _sources(config: Config) -> list[str]:
    """Return the settings that name the SHA-256 of each file with a custom function."""
    functions = {f"algorithm.sources.{k}": v for k, v in config.algorithm.custom_functions.items()}
    for term in config.reward.terms:
        functions[f"reward.sources.{term.name}"] = term.spec
    sources = []
    for name, spec in functions.items():
        file = Path(spec.partition(":")[0])
        if file.suffix == ".py" and file.is_file():
            sources.append(f"{name}={sha256(file)}")
    return sources


def _check_arm(name: str, arm: Config, base_name: str, base: Config) -> None:
    """Raise UserError for an arm that changes nothing, or what a comparison holds equal."""
    if arm == base:
        raise UserError(f"arm {name}: it changes nothing of {base_name}")
    arm_values = flat_settings(arm)
    base_values = flat_settings(base)
    for key in {**base_values, **arm_values}:
        is_method = key in _METHOD or not key.startswith(_EQUAL)
        if not is_method and arm_values.get(key) != base_values.get(key):
            raise UserError(
                f"arm {name}: it changes {key}, which a comparison holds equal; give it to all "
                "arms with --set"
            )


def try_functions(plan: AblationPlan) -> None:
    """Load and try the custom functions that the arms name. Raises UserError, which
    names the arm, for one that fails: its runs would, after those of other arms."""
    for name, config in plan.arms.items():
        try:
            load_parts(config.algorithm)
            if any(term.is_user_code for term in config.reward.terms):
                _try_rewards(config)
        except UserError as error:
            raise UserError(f"arm {name}: {error}") from None


def _try_rewards(config: Config) -> None:
    """Ask an arm's rewards for two responses to its first problem. Raises UserError if one fails,
    or does not answer in time."""
    problem = load_training_problems(config).problems[0]
    responses = [f"The answer is \\boxed{{{problem.answer}}}.", "I do not know."]
    advantage = config.algorithm.advantage
    with Rewarder(config.reward, config.rollout.max_tokens, advantage=advantage) as rewarder:
        for pending in rewarder.start(problem, responses):
            for outcome in pending.result().by_sample.values():
                if isinstance(outcome, str):
                    raise UserError(outcome)


def run_ablation(plan: AblationPlan, jobs: int | None, check: bool, display: Display) -> None:
    """Run `rlvr ablate`. Raises UserError if a run failed, once the others are there."""
    missing = plan.missing()  # refuses another's run before anything is written
    if missing:
        try_functions(plan)
    with writing(f"--out {plan.out}"):
        try_place(plan.out)
        plan.out.mkdir(parents=True, exist_ok=True)
    with lock_directory(plan.out):
        plan.store()
        probe(plan, len(missing), display)
        if check:
            return
        if jobs is None:
            jobs = usable_cores() if default_device() == "cpu" else 1
        failures = make_runs(plan, missing, jobs, display)
    try:
        publish_ablation(plan.out, display)
    finally:
        if failures:
            raise UserError(
                f"{plan.out}: {len(failures)} runs failed and are in no figure: {failures[0]}"
            )
