"""The command line. torch and transformers are imported inside the commands, so help is instant."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

_OUTPUT, _SAMPLING, _SETTINGS, _REPORT = "Input and output", "Sampling", "Settings", "Report"

app = typer.Typer(
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Data = Annotated[
    str | None,
    typer.Argument(
        help="A problem set (arithmetic, gsm8k, …), a JSONL, Parquet or CSV file, a hub id, or -."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="A hub id, a model directory, or a run; none means tiny, the built-in one."),
]
Engine = Annotated[str | None, typer.Option(help="auto (default), vllm or transformers.")]
Samples = Annotated[
    int | None,
    typer.Option(
        "-n",
        "--samples",
        help="Responses a problem: 8 in train, 4 in eval, 1 in sample.",
        rich_help_panel=_SAMPLING,
    ),
]
MaxTokens = Annotated[
    int | None, typer.Option(help="Longest response: 1024 (tiny: 96).", rich_help_panel=_SAMPLING)
]
EvalMaxTokens = Annotated[
    int | None,
    typer.Option(
        help="Longest response: all that the context leaves, up to 32768 (a run: its own).",
        rich_help_panel=_SAMPLING,
    ),
]
PromptTemplate = Annotated[
    str | None,
    typer.Option(
        help="think_answer, boxed, plain, or a file with {problem} in it; none: the set's own.",
        rich_help_panel=_SAMPLING,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(help="1 in train, 0.6 in eval and sample.", rich_help_panel=_SAMPLING),
]
TopP = Annotated[
    float | None,
    typer.Option(help="1 in train, 0.95 in eval and sample.", rich_help_panel=_SAMPLING),
]
Seed = Annotated[int | None, typer.Option(help="Seed of everything: 0.", rich_help_panel=_SETTINGS)]
Limit = Annotated[int | None, typer.Option(help="First problems only.", rich_help_panel=_OUTPUT)]
SkipBad = Annotated[
    bool,
    typer.Option("--skip-bad", help="Go on without bad lines.", rich_help_panel=_OUTPUT),
]
Out = Annotated[
    Path | None, typer.Option(help="A new file for the response rows.", rich_help_panel=_OUTPUT)
]
ResultOut = Annotated[
    Path | None,
    typer.Option(help="A new directory for report and responses.", rich_help_panel=_OUTPUT),
]
RunOut = Annotated[Path | None, typer.Option(help="A new run directory.", rich_help_panel=_OUTPUT)]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="A YAML file of settings.", rich_help_panel=_SETTINGS),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting: section.key=value.", rich_help_panel=_SETTINGS),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Results only.", rich_help_panel=_OUTPUT)
]


@app.callback()
def main() -> None:
    """Reinforcement learning with verifiable rewards on math reasoning, on one node.

    [bold]Examples[/]

      rlvr train --algo dapo                   learn arithmetic with the built-in policy

      rlvr eval --model runs/RUN               pass@1 on the held-out problems

      rlvr sample "What is 47 * 6 + 15?"       one response, with its thought

      cat problems.jsonl | rlvr train -        train on problems of your own
    """


@app.command()
def train(
    data: Data = None,
    algo: Annotated[
        str | None,
        typer.Option(help="A row of --list; dapo is the default.", rich_help_panel="Training"),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option("--list", help="Show the table of algorithms.", rich_help_panel="Training"),
    ] = False,
    steps: Annotated[
        int | None, typer.Option(help="100 (tiny: its own).", rich_help_panel="Training")
    ] = None,
    lr: Annotated[
        float | None, typer.Option("--lr", help="1e-6 (tiny: its own).", rich_help_panel="Training")
    ] = None,
    prompts: Annotated[
        int | None, typer.Option(help="Problems a step: 32.", rich_help_panel="Training")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with a run.", rich_help_panel="Training")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only look whether it can learn.", rich_help_panel="Training"),
    ] = False,
    model: Model = None,
    engine: Engine = None,
    samples: Samples = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    out: RunOut = None,
    quiet: Quiet = False,
    seed: Seed = None,
    config: ConfigFile = None,
    set_: Set = None,
) -> None:
    """Train a policy on problems with known answers.

    [bold]Examples[/]

      rlvr train --algo dapo

      rlvr train gsm8k --model Qwen/Qwen2.5-0.5B-Instruct --steps 200

      cat problems.jsonl | rlvr train --algo grpo - --out runs/mine

      rlvr train --algo ppo --set algorithm.epochs=2

      rlvr train --list

      rlvr train --resume runs/RUN

    Piped, stdout carries one JSON object of metrics a step. Each --set key, its default and its
    meaning stand in the run's config.yaml and in rlvr_cli/config.py.
    """
    flags = {
        "algo": algo,
        "steps": steps,
        "optim.lr": lr,
        "rollout.prompts": prompts,
        "rollout.samples": samples,
        "rollout.temperature": temperature,
        "rollout.top_p": top_p,
        **_shared(data, model, engine, max_tokens, limit, skip_bad, seed),
    }
    with _reported_errors():
        from rlvr_cli.display import Display, show_algorithms

        if list_:
            show_algorithms()
            return
        if resume is not None:
            others = {"--config": config, "--out": out, "--check": check or None}
            resolved = _resolve_again(resume, flags | others, set_)
            from rlvr_cli.commands.train import resume as go_on

            go_on(resolved, resume, Display(quiet))
            return
        resolved = _resolve(flags, config, set_, reads=None)
        from rlvr_cli.commands.train import train as command

        command(resolved, out, check, Display(quiet))


@app.command("eval")
def eval_(
    data: Annotated[
        list[str] | None,
        typer.Argument(help="Problem sets, as in train; several give one table."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="As in train; repeat it for several models."),
    ] = None,
    responses: Annotated[
        str | None,
        typer.Option(help="Judge the responses of a file or - instead.", rich_help_panel=_OUTPUT),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="An earlier result, to test against.", rich_help_panel=_REPORT),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Figures by a field of the problems, too.", rich_help_panel=_REPORT),
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", min=1, help="Of pass@k: 1, 2, 4, … n.", rich_help_panel=_REPORT),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Name the problem sets.", rich_help_panel=_OUTPUT)
    ] = False,
    prompt: PromptTemplate = None,
    engine: Engine = None,
    samples: Samples = None,
    max_tokens: EvalMaxTokens = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    out: ResultOut = None,
    quiet: Quiet = False,
    seed: Seed = None,
    config: ConfigFile = None,
    set_: Set = None,
) -> None:
    """Measure pass@k and cons@k, with 95 % intervals over problems.

    [bold]Examples[/]

      rlvr eval --model runs/RUN

      rlvr eval aime24 amc23 --model Qwen/Qwen2.5-Math-1.5B-Instruct -n 16 --out results/qwen

      rlvr eval aime24 --model runs/RUN -n 16 --against results/qwen

      cat responses.jsonl | rlvr eval --responses - --by level

      cat problems.jsonl | rlvr eval - --limit 50 > responses.jsonl

    Piped, stdout carries one JSON object a response. With --out a stopped evaluation goes on
    where it was when the command is given again.
    """
    with _reported_errors():
        from rlvr_cli.types import UserError

        if list_:
            from rlvr_cli.commands.sets import list_sets

            return list_sets()
        from rlvr_cli.commands.publish import Asked
        from rlvr_cli.display import Display

        asked = Asked(tuple(k or ()), tuple(by or ()), against, out)
        flags = _eval_flags(
            None, None, engine, samples, max_tokens, temperature, top_p, limit, skip_bad, seed
        )
        flags["data.prompt"] = prompt
        if responses is not None:
            if data or model:
                raise UserError("--responses needs neither a problem set nor --model")
            from rlvr_cli.commands.score import score

            plain = _resolve(flags, config, set_, reads=_READ_BY_EVAL, own_defaults=False)
            return score(plain, responses, asked, Display(quiet))
        models, sources = dict.fromkeys(model or (None,)), dict.fromkeys(data or (None,))
        pairs = [{"model": one, "data.source": source} for one in models for source in sources]
        configs = [_resolve(flags | pair, config, set_, reads=_READ_BY_EVAL) for pair in pairs]
        from rlvr_cli.commands.eval import eval_ as command

        command(configs, asked, Display(quiet))
        return None


@app.command()
def sample(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT|FILE|-", help="Texts, .jsonl files, or - for stdin."),
    ] = None,
    model: Model = None,
    prompt: PromptTemplate = None,
    engine: Engine = None,
    samples: Samples = 1,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    out: Out = None,
    quiet: Quiet = False,
    seed: Seed = None,
    config: ConfigFile = None,
    set_: Set = None,
) -> None:
    """Read what a policy answers.

    [bold]Examples[/]

      rlvr sample "What is 47 * 6 + 15?" -n 3

      rlvr sample --model runs/RUN "What is 12 + 7?"

      cat problems.jsonl | rlvr sample - | jq .response

    Piped, stdout carries one JSON object a response, in the rows of rlvr eval.
    """
    with _reported_errors():
        from rlvr_cli.display import Display
        from rlvr_cli.types import UserError

        if not inputs:
            raise UserError("sample: give a prompt, a .jsonl file, or - for stdin")
        flags = _eval_flags(
            None, model, engine, samples, max_tokens, temperature, top_p, limit, skip_bad, seed
        )
        flags["data.prompt"] = prompt
        resolved = _resolve(flags, config, set_, reads=_READ_BY_EVAL)
        from rlvr_cli.commands.sample import sample as command

        command(resolved, inputs, out, Display(quiet))


_READ_BY_EVAL = (
    *("seed", "threads", "model", "engine", "rollout.max_tokens", "rollout.kv_budget_mb"),
    *("rollout.gpu_share", "rollout.seeded"),
    *("data.source", "data.split", "data.limit", "data.skip_bad", "data.prompt"),
    *("data.verifier", "data.root"),
    *("eval.samples", "eval.temperature", "eval.top_p"),
)


def _shared(
    data: str | None,
    model: str | None,
    engine: str | None,
    max_tokens: int | None,
    limit: int | None,
    skip_bad: bool,
    seed: int | None,
) -> dict[str, Any]:
    return {
        "data.source": data,
        "model": model,
        "engine": engine,
        "rollout.max_tokens": max_tokens,
        "data.limit": limit,
        "data.skip_bad": skip_bad or None,
        "seed": seed,
    }


def _eval_flags(
    data: str | None,
    model: str | None,
    engine: str | None,
    samples: int | None,
    max_tokens: int | None,
    temperature: float | None,
    top_p: float | None,
    limit: int | None,
    skip_bad: bool,
    seed: int | None,
) -> dict[str, Any]:
    return {
        "eval.samples": samples,
        "eval.temperature": temperature,
        "eval.top_p": top_p,
        **_shared(data, model, engine, max_tokens, limit, skip_bad, seed),
    }


def _resolve(
    flags: dict[str, Any],
    file: Path | None,
    assignments: list[str] | None,
    reads: Any,
    own_defaults: bool = True,
) -> Any:
    """The configuration from, in rising order: the model's own file, --config, flags, --set."""
    from rlvr_cli import config
    from rlvr_cli.models import DEFAULTS_FILE, model_directory
    from rlvr_cli.types import UserError

    layers = [config.yaml_layer(file)] if file else []
    layers += [config.flag_layer(key, value) for key, value in flags.items() if value is not None]
    layers += config.set_layer(assignments or [])
    for assignment in assignments or []:
        key = assignment.partition("=")[0].strip()
        if reads is not None and key not in reads:
            raise UserError(f"--set {assignment}: only rlvr train reads {key}")
    if not own_defaults:
        return config.resolve(layers)
    defaults = Path(model_directory(config.resolve(layers).model)) / DEFAULTS_FILE
    if defaults.is_file():
        layers = [config.yaml_layer(defaults, str(defaults)), *layers]
    return config.resolve(layers)


_CHANGED_BY_RESUME = ("steps", "checkpoint.", "guards.")


def _resolve_again(run: Path, flags: dict[str, Any], assignments: list[str] | None) -> Any:
    """The run's own configuration; what it computes can only be made longer, not changed."""
    from rlvr_cli import config
    from rlvr_cli.types import UserError

    given = {key: value for key, value in flags.items() if value is not None}
    keys = [*given, *(text.partition("=")[0].strip() for text in assignments or [])]
    for key in keys:
        if not key.startswith(_CHANGED_BY_RESUME):
            raise UserError(
                f"--resume goes on with {run} as it was: {key} cannot change, only --steps and "
                "--set checkpoint.… or guards.… can"
            )
    file = run / "config.yaml"
    if not file.is_file():
        raise UserError(f"--resume {run}: no config.yaml in it; give the directory of a run")
    layers = [config.yaml_layer(file, str(file))]
    layers += [config.flag_layer(key, value) for key, value in given.items()]
    return config.resolve([*layers, *config.set_layer(assignments or [])])


@contextmanager
def _reported_errors() -> Iterator[None]:
    """One line and exit code 2 for a mistake of the user's; quiet ends for a pipe or Ctrl-C."""
    from rlvr_cli.types import RunStoppedError, UserError

    try:
        yield
    except (UserError, RunStoppedError) as error:
        from rlvr_cli.display import fail

        fail(str(error))
        raise typer.Exit(3 if isinstance(error, RunStoppedError) else 2) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
