"""The options that commands share: same name and meaning everywhere.

One that sets a setting has the setting's meaning in help (`cli/help.py`).
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

OUTPUT, SAMPLING, SETTINGS, REPORT = "Input and output", "Sampling", "Settings", "Report"
TRAINING = "Training"
output, report, sampling, settings, training = (
    partial(typer.Option, rich_help_panel=name)
    for name in (OUTPUT, REPORT, SAMPLING, SETTINGS, TRAINING)
)

Data = Annotated[list[str] | None, typer.Argument()]
Model = Annotated[str | None, typer.Option()]
Engine = Annotated[str | None, typer.Option()]
Samples = Annotated[int | None, sampling("-n", "--samples")]
MaxTokens = Annotated[int | None, sampling()]
PromptTemplate = Annotated[str | None, sampling()]
System = Annotated[str | None, sampling(metavar="TEXT|FILE")]
Temperature = Annotated[float | None, sampling()]
TopP = Annotated[float | None, sampling()]
Seed = Annotated[int | None, settings()]
Limit = Annotated[int | None, output()]
SkipBad = Annotated[bool, output("--skip-bad")]
Field = Annotated[list[str] | None, output("--field", metavar="NAME=PATH")]
Out = Annotated[Path | None, output(help="A new file for the response rows.")]
ResultOut = Annotated[Path | None, output(help="A new directory for report and responses.")]
RunOut = Annotated[Path | None, output(help="A new run directory.")]
ConfigFile = Annotated[Path | None, settings("--config", help="A YAML file of settings.")]
Set = Annotated[list[str] | None, settings("--set", help="Any setting: section.key=value.")]
Processes = Annotated[
    int | None, settings(min=1, max=1024, help="So many side by side on this machine, one a GPU.")
]
Quiet = Annotated[bool, output("--quiet", "-q", help="Results only.")]
Track = Annotated[
    list[str] | None,
    output("--track", help="Mirror the metrics in tensorboard, wandb or trackio, too."),
]
Verbose = Annotated[bool, output("--verbose", "-v", help="Figures of the machine as well.")]

Algo = Annotated[str | None, training(metavar="NAME|FILE.yaml")]
ListAlgorithms = Annotated[bool, training("--list", help="Show the table of algorithms.")]
Steps = Annotated[int | None, training()]
LearningRate = Annotated[float | None, training("--lr")]
Lora = Annotated[int | None, training()]
Kl = Annotated[
    float | None,
    training(
        "--kl",
        min=0,
        help="Coefficient of the KL penalty: 0 is none; without one so far, k3 in the loss.",
    ),
]
Reward = Annotated[list[str] | None, training("--reward", metavar="SPEC[:WEIGHT]")]
Prompts = Annotated[int | None, training()]
EvalEvery = Annotated[int | None, training()]
Resume = Annotated[Path | None, training(help="Resume this run from its newest checkpoint.")]
From = Annotated[
    Path | None,
    training(
        "--from", help="Begin a new run with the settings, weights and optimizer of this one."
    ),
]
Check = Annotated[
    bool, training("--check", help="Check model, data, memory and a probe, then end.")
]
ListSettings = Annotated[
    bool, settings("--settings", help="List all settings, or those of the sections given as DATA.")
]
PrintConfig = Annotated[
    bool,
    settings(
        "--print-config", help="Print the settings that the options give, as --config reads them."
    ),
]
