"""The options that commands share: same name and meaning everywhere.

One that sets a setting has the setting's meaning in help (`cli/help.py`).
"""

from pathlib import Path
from typing import Annotated

import typer

OUTPUT, SAMPLING, SETTINGS, REPORT = "Input and output", "Sampling", "Settings", "Report"
TRAINING = "Training"

Data = Annotated[list[str] | None, typer.Argument()]
Model = Annotated[str | None, typer.Option()]
Engine = Annotated[str | None, typer.Option()]
Samples = Annotated[int | None, typer.Option("-n", "--samples", rich_help_panel=SAMPLING)]
MaxTokens = Annotated[int | None, typer.Option(rich_help_panel=SAMPLING)]
PromptTemplate = Annotated[str | None, typer.Option(rich_help_panel=SAMPLING)]
System = Annotated[str | None, typer.Option(metavar="TEXT|FILE", rich_help_panel=SAMPLING)]
Temperature = Annotated[float | None, typer.Option(rich_help_panel=SAMPLING)]
TopP = Annotated[float | None, typer.Option(rich_help_panel=SAMPLING)]
Seed = Annotated[int | None, typer.Option(rich_help_panel=SETTINGS)]
Limit = Annotated[int | None, typer.Option(rich_help_panel=OUTPUT)]
SkipBad = Annotated[bool, typer.Option("--skip-bad", rich_help_panel=OUTPUT)]
Field = Annotated[
    list[str] | None, typer.Option("--field", metavar="NAME=PATH", rich_help_panel=OUTPUT)
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

Algo = Annotated[str | None, typer.Option(rich_help_panel=TRAINING)]
ListAlgorithms = Annotated[
    bool, typer.Option("--list", help="Show the table of algorithms.", rich_help_panel=TRAINING)
]
Steps = Annotated[int | None, typer.Option(rich_help_panel=TRAINING)]
LearningRate = Annotated[float | None, typer.Option("--lr", rich_help_panel=TRAINING)]
Kl = Annotated[
    float | None,
    typer.Option(
        "--kl",
        min=0,
        help="Coefficient of the KL penalty: 0 is none; without one so far, k3 in the loss.",
        rich_help_panel=TRAINING,
    ),
]
Prompts = Annotated[int | None, typer.Option(rich_help_panel=TRAINING)]
EvalEvery = Annotated[int | None, typer.Option(rich_help_panel=TRAINING)]
Resume = Annotated[
    Path | None,
    typer.Option(help="Resume this run from its newest checkpoint.", rich_help_panel=TRAINING),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        help="Begin a new run with the settings, weights and optimizer of this one.",
        rich_help_panel=TRAINING,
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Check model, data, memory and a probe, then end.",
        rich_help_panel=TRAINING,
    ),
]
ListSettings = Annotated[
    bool,
    typer.Option(
        "--settings",
        help="List all settings, or those of the sections given as DATA.",
        rich_help_panel=SETTINGS,
    ),
]
PrintConfig = Annotated[
    bool,
    typer.Option(
        "--print-config",
        help="Print the settings that the options give, as --config reads them.",
        rich_help_panel=SETTINGS,
    ),
]
