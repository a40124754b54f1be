"""The options that commands share: same name and meaning everywhere."""

from pathlib import Path
from typing import Annotated

import typer

OUTPUT, SAMPLING, SETTINGS, REPORT = "Input and output", "Sampling", "Settings", "Report"

Data = Annotated[
    str | None,
    typer.Argument(
        help="A problem set (chains, gsm8k, …), a JSONL, Parquet or CSV file, a hub id, or -."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="A hub id, a model directory, a run, or tiny, the built-in one."),
]
Engine = Annotated[str | None, typer.Option(help="auto, vllm or transformers.")]
Samples = Annotated[
    int | None,
    typer.Option(
        "-n",
        "--samples",
        help="Responses a problem.",
        rich_help_panel=SAMPLING,
    ),
]
MaxTokens = Annotated[
    int | None, typer.Option(help="Longest response in tokens.", rich_help_panel=SAMPLING)
]
PromptTemplate = Annotated[
    str | None,
    typer.Option(
        help="think_answer, boxed, plain, or a text or file with {problem}; none: the set's own.",
        rich_help_panel=SAMPLING,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(help="Of the sampling; 0 (not in train) is greedy.", rich_help_panel=SAMPLING),
]
TopP = Annotated[
    float | None,
    typer.Option(help="Share of the probability that is sampled from.", rich_help_panel=SAMPLING),
]
Seed = Annotated[int | None, typer.Option(help="Seed of everything.", rich_help_panel=SETTINGS)]
Limit = Annotated[int | None, typer.Option(help="First problems only.", rich_help_panel=OUTPUT)]
SkipBad = Annotated[
    bool,
    typer.Option("--skip-bad", help="Go on without bad lines.", rich_help_panel=OUTPUT),
]
Out = Annotated[
    Path | None, typer.Option(help="A new file for the response rows.", rich_help_panel=OUTPUT)
]
ResultOut = Annotated[
    Path | None,
    typer.Option(help="A new directory for report and responses.", rich_help_panel=OUTPUT),
]
RunOut = Annotated[Path | None, typer.Option(help="A new run directory.", rich_help_panel=OUTPUT)]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="A YAML file of settings.", rich_help_panel=SETTINGS),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting: section.key=value.", rich_help_panel=SETTINGS),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Results only.", rich_help_panel=OUTPUT)]
