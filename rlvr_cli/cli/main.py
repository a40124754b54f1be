"""The command line. torch and transformers are imported inside the commands, so help is instant."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from rlvr_cli import __version__
from rlvr_cli.cli import options
from rlvr_cli.cli.errors import reported_errors
from rlvr_cli.cli.help import PlainCommand, PlainGroup
from rlvr_cli.cli.options import (
    File,
    SettingsCommand,
    Text,
    Texts,
    config_option,
    given,
    output,
    report,
    training,
)
from rlvr_cli.ranks.launch import begin

app = typer.Typer(
    cls=PlainGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_given: bool) -> None:
    if is_given:
        print(f"rlvr {__version__}")
        raise typer.Exit


@app.callback()
def rlvr(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Reinforcement learning with verifiable rewards on math reasoning.

    \b
    Examples:
      rlvr train --algo dapo                   teach the built-in policy
      rlvr eval --model runs/RUN               pass@1 on the held-out problems
      rlvr sample "Start at 7, keep last digits: (a) +5 (b) *3"
      rlvr show runs/RUN                       its curves and its responses
      cat problems.jsonl | rlvr train -        train on problems of your own
    """


@app.command(cls=SettingsCommand)
def train(
    ctx: typer.Context,
    list_: Annotated[bool, training("--list", help="Show the table of algorithms.")] = False,
    resume: Annotated[File, training(help="Resume this run from its newest checkpoint.")] = None,
    from_: Annotated[
        File,
        training("--from", help="Begin a new run with this one's weights, optimizer, settings."),
    ] = None,
    check: Annotated[
        bool, training("--check", help="Check model, data and memory, probe, then exit.")
    ] = False,
    out: Annotated[File, output(help="Write the run to this new directory.")] = None,
    quiet: options.Quiet = False,
    verbose: Annotated[
        bool,
        output("--verbose", "-v", help="Also print throughput, memory and timing of every step."),
    ] = False,
    track: options.Track = None,
    config: options.ConfigFile = None,
    set_: options.Set = None,
    processes: options.Processes = None,
    settings: Annotated[
        bool,
        config_option(
            "--settings", help="List all settings, or those of the sections given as DATA."
        ),
    ] = False,
    print_config: Annotated[
        bool,
        config_option("--print-config", help="Print the settings that would run, for --config."),
    ] = False,
    translate: Annotated[
        bool,
        config_option(
            "--translate",
            help="Translate a run of TRL or verl: its --config FILE, its flags, its a.b=c. --out "
            "FILE.yaml writes settings that run.",
        ),
    ] = False,
) -> None:
    """Train a policy on problems with known answers.

    \b
    Examples:
      rlvr train --algo dapo
      rlvr train gsm8k --model Qwen/Qwen2.5-0.5B-Instruct --steps 200
      cat problems.jsonl | rlvr train --algo grpo - --out runs/mine
      rlvr train gsm8k --model Qwen/Qwen2.5-7B-Instruct --lora 32
      rlvr train gsm8k --reward math --reward my_reward.py:0.5
      rlvr train --list
      rlvr train --resume runs/RUN
      rlvr train --from runs/RUN --lr 5e-7 --steps 50
      rlvr train --settings optim

    Piped, stdout carries one JSON object of metrics per step.
    """
    with reported_errors():
        import rlvr_cli.api as api
        from rlvr_cli.cli.listings import list_algorithms, list_settings, list_translation
        from rlvr_cli.config import as_yaml
        from rlvr_cli.console.display import Display, print_step
        from verifiers.workers.cage import end_with_this

        values = given(ctx)
        sources = values.sources or []
        if list_:
            return list_algorithms()
        if settings:
            return list_settings(sources)
        if translate:
            from rlvr_cli.program.foreign_run import read_run

            entries = read_run(config) if config is not None else {}
            flags = {"data": sources, "reward": values.rewards, **values.flags}
            return list_translation({**entries, **ctx.meta.get(options.FOREIGN, {})}, flags, out)
        begin(processes, "-" in sources)
        if print_config:
            from rlvr_cli.setup.plan import foreseen

            resolved = api.train_config(
                {"data": sources, "reward": values.rewards, **values.flags},
                resume=resume,
                from_=from_,
                check=check,
                out=out,
                config=config,
                set=set_,
            )
            return print(as_yaml(foreseen(resolved)), end="")
        end_with_this()  # parts of the algorithm run in this process
        api.train(
            sources or None,
            reward=values.rewards,
            resume=resume,
            from_=from_,
            check=check,
            out=out,
            track=track,
            config=config,
            set=set_,
            on_step=print_step,
            show=Display(quiet, verbose),
            **values.flags,
        )
        return None


@app.command("eval", cls=SettingsCommand)
def eval_(
    ctx: typer.Context,
    data: Annotated[Texts, Argument(help="Problem sets, named like those of train.")] = None,
    model: Annotated[
        Texts, Option(help="Model to measure, as in train; repeat for several.")
    ] = None,
    responses: Annotated[
        Texts,
        output(
            metavar="FILE|NAME=FILE",
            help="Judge responses from a file or - instead of sampling; repeat for several. NAME "
            "is the model's in tables, FILE::id=path a field of this file.",
        ),
    ] = None,
    against: Annotated[
        File,
        report(
            help="Compare with this earlier result, paired by problem. Results of one command are "
            "compared with its first."
        ),
    ] = None,
    pairs: Annotated[
        Literal["first", "all"],
        report(help="Compare results with the first, or all pairs, p corrected by Holm."),
    ] = "first",
    by: Annotated[Texts, report(help="Also report figures by this field of the problems.")] = None,
    k: Annotated[
        Texts,
        report(
            "--k",
            help="Values of k for pass@k and cons@k (maj@k; avg@n is pass@1), e.g. 1,4,16. "
            "Default: 1, 2, 4, … up to -n.",
        ),
    ] = None,
    list_: Annotated[bool, output("--list", help="List the problem sets.")] = False,
    judge: Annotated[str, report(help="Judge: rlvr or math-verify.")] = "rlvr",
    format: Annotated[
        Literal["table", "md", "latex", "csv", "json"],
        report(
            help="Format of the figures: a table on the screen, or one of these on stdout (latex "
            "for booktabs, csv with a figure a row)."
        ),
    ] = "table",
    out: Annotated[File, output(help="Write report and responses to this new directory.")] = None,
    quiet: options.Quiet = False,
    config: options.ConfigFile = None,
    set_: options.Set = None,
    processes: options.Processes = None,
) -> None:
    """Measure pass@k and cons@k (maj@k; avg@k is pass@1), with 95 % intervals over problems.

    \b
    Examples:
      rlvr eval --model runs/RUN
      rlvr eval aime24 amc23 --model Qwen/Qwen3-1.7B -n 16 --out results/qwen
      rlvr eval aime24 --model runs/RUN -n 16 --against results/qwen
      cat responses.jsonl | rlvr eval --responses - --by level
      rlvr eval --responses made.jsonl --judge math-verify
      cat problems.jsonl | rlvr eval - --limit 50 > responses.jsonl

    Piped, stdout carries one JSON object per response. With --out it stays empty, and a stopped
    evaluation goes on where it was when the command is given again.
    """
    after = "nothing is kept; rlvr eval with --out DIR keeps the responses that it has sampled"
    if out is not None:
        after = f"{out} keeps the sampled responses; give the same command again to go on"
    with reported_errors("nothing is kept" if responses else after):
        if list_:
            from rlvr_cli.cli.listings import list_sets

            return list_sets()
        import rlvr_cli.api as api
        from rlvr_cli.console.display import Display

        if not responses:
            begin(processes, "-" in (data or ()))
        api.evaluate(
            data or None,
            model=model,
            responses=responses or None,
            against=against,
            by=by,
            k=k,
            pairs=pairs,
            judge=judge,
            format=format,
            out=out,
            config=config,
            set=set_,
            show=Display(quiet),
            **given(ctx).flags,
        )
        return None


@app.command(cls=PlainCommand)
def export(
    run: Annotated[Path, Argument(help="The directory of a run.")],
    step: Annotated[
        str, Option(help="Checkpoint to export: best, last or a step number.")
    ] = "last",
    dtype: Annotated[
        Literal["bfloat16", "float16", "float32"],
        Option(
            help="Dtype of the weights. 16 bits round away updates smaller than half their step: "
            "evaluate the export."
        ),
    ] = "float32",
    out: Annotated[
        File, Option(help="Write to this new directory. Default: RUN/export-STEP.")
    ] = None,
    push: Annotated[Text, Option(help="Also upload it to the hub under this name.")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Write a trained policy as a plain model directory, merged, with a card made from the run.

    \b
    Examples:
      rlvr export runs/RUN --step best --out mine
      rlvr export runs/RUN --push NAME/mine

    It loads in transformers and vLLM without rlvr.
    """
    with reported_errors("nothing is kept"):
        from rlvr_cli.console.display import Display
        from rlvr_cli.runs.export import write_export

        write_export(run, step, dtype, out, push, Display(quiet))


@app.command(cls=PlainCommand)
def show(
    sources: Annotated[
        list[Path] | None,
        Argument(
            metavar="RUN|RESULT", help="Directories that train or eval wrote, or one of ablate."
        ),
    ] = None,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Keep showing until the runs end.")
    ] = False,
    step: Annotated[int | None, Option(help="Show the responses of this step.")] = None,
    group: Annotated[
        int | None, Option(help="Show this group of the step, counted from 1.")
    ] = None,
    verdict: Annotated[Text, Option(help="Show only responses with this verdict.")] = None,
    problem: Annotated[Text, Option(help="Show this problem through training, by its id.")] = None,
    by: Annotated[Texts, report(help="Also show figures of a result by this field.")] = None,
    explain: Annotated[
        bool, Option("--explain", help="Explain a step, as --explain 30, in words and numbers.")
    ] = False,
    track: options.Track = None,
    html: Annotated[File, output(help="Write an interactive page to this new file.")] = None,
    picture: Annotated[
        File, output(help="Draw an ablation's curves to this new .svg, .pdf or .png.")
    ] = None,
    panel: Annotated[
        Text,
        output(help="Draw this panel alone: steps, seconds, tokens, difference or the figure's."),
    ] = None,
) -> None:
    """Show runs and results: live, later, beside one another, response by response.

    \b
    Examples:
      rlvr show runs/A runs/B
      rlvr show runs/A --follow
      rlvr show runs/A --step 12 --group 3
      rlvr show runs/A --explain 30
      rlvr show runs/A --verdict bad_format | less
      rlvr show runs/A --html page.html
      rlvr show runs/ablate-dapo-chains --picture figure.pdf --panel difference
      rlvr show results/mine --by level
    """
    with reported_errors("nothing is lost"):
        from rlvr_cli.console.display import Display
        from rlvr_cli.show.command import ShowOptions, show_sources

        options = ShowOptions(
            follow=follow,
            step=step,
            group=group,
            verdict=verdict,
            problem=problem,
            by=by,
            explain=explain,
            track=track,
            html=html,
            picture=picture,
            panel=panel,
        )
        show_sources(list(dict.fromkeys(sources or ())), options, Display(stderr=False))


@app.command(cls=PlainCommand, context_settings={"ignore_unknown_options": True})
def ablate(
    data: Annotated[
        Texts,
        Argument(
            metavar="DATA|PLAN",
            help="Problem sets as in train, or one plan in YAML; flags of train are those of all "
            "runs.",
        ),
    ] = None,
    base: Annotated[
        Text, Option(help="Algorithm to compare with, or NAME: settings of it. Default: dapo.")
    ] = None,
    arm: Annotated[
        Texts,
        Option(help="Algorithm, or NAME: settings or flags of train, with spaces between."),
    ] = None,
    ladder: Annotated[
        Literal["dapo"] | None,
        Option(help="Take the arms of DAPO's paper, from GRPO up by one technique each."),
    ] = None,
    seeds: Annotated[Text, Option(help="Seeds of every arm. Default: 0,1,2,3,4.")] = None,
    steps: Annotated[int | None, Option(help="Steps of every run.", min=1)] = None,
    model: Annotated[Text, Option(help="Model of every run, as in train.")] = None,
    set_: Annotated[Texts, Option("--set", help="Setting of every run.")] = None,
    jobs: Annotated[
        int | None,
        Option(
            help="Runs at a time, a thread each. Default: one per core, or one on a GPU.",
            min=1,
            max=1024,
        ),
    ] = None,
    check: Annotated[
        bool, Option("--check", help="Say what it would take and could show, then exit.")
    ] = False,
    out: Annotated[File, Option(help="Directory of the runs. Given again, it goes on.")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare settings over seeds: runs side by side, and their differences with intervals.

    \b
    Examples:
      rlvr ablate --base grpo --arm dapo --lr 1e-4 --seeds 0,1,2,3
      rlvr ablate --arm "low: algorithm.surrogate.high=0.2"
      rlvr ablate gsm8k --model MODEL --arm "no-filter: algorithm.filter=none"
      rlvr ablate --ladder dapo --seeds 0,1
      rlvr ablate plan.yaml --out runs/mine

    Given again, the command makes what is missing: each run is a directory that rlvr show and
    rlvr train --resume take. It draws the arms' curves as picture.svg and, with the extra
    rlvr-cli[plot], as picture.pdf.
    """
    with reported_errors("the runs under way are saved; give the same command again to go on"):
        from rlvr_cli.console.display import Display
        from rlvr_cli.core.errors import UserError
        from rlvr_cli.program import ablate as command

        data, settings = command.settings_of_all(data or ())
        plan_file = f"recipes/ablations/ladder-{ladder}.yaml" if ladder else None
        if data and command.is_plan(data[0]):
            if len(data) > 1 or ladder:
                raise UserError(f"{data[0]} is a plan, which has data and arms; give it alone")
            plan_file = data[0]
            data = None
        wishes = command.read_wishes(Path(plan_file)) if plan_file else command.Wishes()
        wishes = command.merged(
            wishes,
            data=data or None,
            base=base,
            seeds=command.read_seeds(seeds),
            model=model,
            sets=[*(set_ or ()), *settings],
            arms=arm or (),
        )
        plan = command.plan_of(wishes, out, steps)
        command.run_ablation(plan, jobs, check, Display(quiet))


@app.command(cls=PlainCommand)
def audit(
    reward: Annotated[
        Texts, Option(metavar="SPEC[:WEIGHT]", help="Reward to try, as in train; repeat for a sum.")
    ] = None,
    data: Annotated[Texts, Option(help="Problem sets, named like those of train.")] = None,
    responses: Annotated[Texts, output(help="Also try these responses to the problems.")] = None,
    way: Annotated[
        Text, Option(help="Text with {answer} in it: how answers are written. Default: usual ways.")
    ] = None,
    limit: Annotated[
        Text, output(metavar="<int>", help="First problems to use. Default: 200, evenly spread.")
    ] = None,
    field: Annotated[
        Texts, output(metavar="NAME=PATH", help="Path of a field in a row, as in train.")
    ] = None,
    format: Annotated[
        Literal["table", "json"], output(help="A page, or all rows as JSON on stdout.")
    ] = "table",
    strict: Annotated[bool, Option("--strict", help="Exit with 1 unless every check is fine.")] = (
        False
    ),
    quiet: options.Quiet = False,
    config: options.ConfigFile = None,
    set_: options.Set = None,
) -> None:
    """Try a reward on responses whose worth is known: what does it really pay?

    \b
    Examples:
      rlvr audit --reward my_reward.py --data problems.jsonl
      rlvr audit --data gsm8k --set data.answer_format=boxed --strict
      rlvr audit --reward my_reward.py --responses responses.jsonl --format json
    """
    with reported_errors("nothing is kept"):
        from rlvr_cli.console.audit import show_audit
        from rlvr_cli.console.display import Display
        from rlvr_cli.core.jsonl import write_jsonl_line
        from rlvr_cli.program.audit import audit_rewards

        flags = {"reward": reward, "data": data, "limit": limit, "field": field}
        figures = audit_rewards(flags, set_ or (), config, responses or (), way, Display(quiet))
        if format == "json":
            write_jsonl_line(sys.stdout, asdict(figures))
        else:
            show_audit(figures, Display(stderr=False))
        if figures.is_interrupted:
            raise KeyboardInterrupt("the checks so far are shown")
    if strict and not figures.is_fine:
        raise typer.Exit(1)


@app.command(cls=PlainCommand)
def doctor(
    rollout_server: Annotated[
        Texts, Option(metavar="URL", help="Check this rollout server instead; repeat for several.")
    ] = None,
    model: Annotated[str, Option(help="Model of the servers, as in train.")] = "tiny",
    weights_dir: Annotated[
        Text, Option(metavar="HERE[:THERE]", help="Directory of the weights, as in train.")
    ] = None,
    set_: options.Set = None,
) -> None:
    """Check this installation, or rollout servers: what is there, what is missing, and for what.

    \b
    Examples:
      rlvr doctor && rlvr train --algo dapo
      rlvr doctor --rollout-server http://127.0.0.1:8000 --model runs/RUN

    The exit code is 0 if the default run can run, or the servers keep their contract, else 2.
    """
    with reported_errors():
        from rlvr_cli.console.display import Display
        from rlvr_cli.program.serve import examine_servers
        from rlvr_cli.runs.doctor import examine

        if rollout_server:
            flags = {
                "rollout_server": rollout_server,
                "model": model,
                "weights_dir": weights_dir,
            }
            examine_servers(flags, set_ or (), Display(stderr=False))
        else:
            examine(Display(stderr=False))


@app.command(cls=PlainCommand, context_settings={"allow_extra_args": True})
def serve(
    ctx: typer.Context,
    model: Annotated[str, Argument(help="Model to sample from, as --model of train.")],
    python: Annotated[
        str,
        Option(
            metavar="PATH",
            help="Python of an environment that has vLLM 0.32 or later.",
            show_default="this one",
        ),
    ] = sys.executable,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen on.", min=1, max=65535)] = 8000,
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        Option(help="Compute dtype. Auto means float32 on a CPU, else bfloat16."),
    ] = "auto",
    device: Annotated[
        Literal["auto", "cpu", "gpu"], Option(help="Device of the server. Auto: this machine's.")
    ] = "auto",
    print_: Annotated[
        bool, Option("--print", help="Print the command line instead of running it.")
    ] = False,
) -> None:
    """Start a vLLM server that samples for rlvr train --rollout-server.

    \b
    Examples:
      rlvr serve Qwen/Qwen2.5-0.5B-Instruct --python ~/vllm/bin/python
      rlvr serve Qwen/Qwen2.5-32B-Instruct -- --tensor-parallel-size 4
      rlvr serve tiny --print

    It has no weights until a run pushes them. What follows -- is passed on to vLLM.
    """
    with reported_errors():
        from rlvr_cli.console.display import Display
        from rlvr_cli.program.serve import Serving
        from rlvr_cli.program.serve import serve as start_server

        start_server(Serving(model, python, host, port, dtype, device, ctx.args), print_, Display())


@app.command(cls=SettingsCommand)
def sample(
    ctx: typer.Context,
    inputs: Annotated[
        Texts,
        Argument(metavar="PROMPT|FILE|-", help="Prompts as text, .jsonl files, or - for stdin."),
    ] = None,
    out: Annotated[File, output(help="Write the response rows to this new file.")] = None,
    quiet: options.Quiet = False,
    config: options.ConfigFile = None,
    set_: options.Set = None,
) -> None:
    """Print the answers of a policy to prompts.

    \b
    Examples:
      rlvr sample "Start at 7, keep last digits: (a) +5 (b) *3" -n 3
      cat problems.jsonl | rlvr sample - | jq .response

    A terminal shows each response while it is written. Piped, stdout carries one JSON object per
    response, in the rows of rlvr eval; with --out it stays empty.
    """
    with reported_errors("responses that are not written yet are lost"):
        import rlvr_cli.api as api
        from rlvr_cli.console.display import Display
        from rlvr_cli.core.jsonl import jsonl_line

        rows = api.sample(
            inputs or None,
            out=out,
            config=config,
            set=set_,
            show=Display(quiet),
            is_live=out is None and sys.stdout.isatty(),
            **given(ctx).flags,
        )
        if out is None:
            sys.stdout.writelines(map(jsonl_line, rows))
