"""The options of commands: a flag for each setting that a command reads, made from the setting, and
those that are no settings, which commands share."""

from functools import partial
from importlib import resources
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.markup import escape
from typer.core import TyperCommand

OUTPUT, SAMPLING, SETTINGS, REPORT = "Input and output", "Sampling", "Settings", "Report"
TRAINING = "Training"
PANELS = (TRAINING, SAMPLING, OUTPUT, REPORT, SETTINGS)
"""In the order of help."""
output, report, setting, training = (
    partial(typer.Option, rich_help_panel=name) for name in (OUTPUT, REPORT, SETTINGS, TRAINING)
)
SHORT = {"--samples": "-n"}

File = Path | None
Text = str | None
Texts = list[str] | None
"""The types of options that may be left out."""
ConfigFile = Annotated[Path | None, setting("--config", help="Read settings from this YAML file.")]
Set = Annotated[Texts, setting("--set", help="Give any setting as section.key=value.")]
Processes = Annotated[
    int | None,
    setting(min=1, max=1024, help="Data-parallel processes on this machine, one per GPU."),
]
Quiet = Annotated[bool, output("--quiet", "-q", help="Print results only.")]
Track = Annotated[
    Texts, output("--track", help="Also send the metrics to tensorboard, wandb or trackio.")
]


class SettingsCommand(TyperCommand):
    """A command with a flag for each setting that it reads, but those that its function declares.
    They are made when they are first asked for, so that help of the program loads no settings, and
    what they were given goes to `ctx.obj`."""

    made: list[str] | None = None
    _options: list[Any]

    @property
    def params(self) -> list[Any]:
        if self.made is None:
            made, own = setting_options(self.name), {one.name: one for one in self._options}
            for one in made:
                if one.name in own:
                    own[one.name].help += one.help[one.help.rfind(" [dim]") :]
            made = [one for one in made if one.name not in own]
            self.made = [one.name for one in made]
            panels = [None, *PANELS]
            self._options = sorted(
                [*made, *self._options],
                key=lambda one: panels.index(getattr(one, "rich_help_panel", None)),
            )
        return self._options

    @params.setter
    def params(self, own: list[Any]) -> None:
        self._options = own

    def invoke(self, ctx: Any) -> Any:
        ctx.obj = {name: ctx.params.pop(name) for name in self.made or ()}
        return super().invoke(ctx)


def setting_options(command: Any) -> list[Any]:
    """Return an option for each setting that has a flag of the command. Numbers are taken as text:
    the setting itself says what is wrong with one. Help shows the default, and that of the built-in
    policy where it has one of its own."""
    from rlvr_cli.config import flags_of, yaml_layer

    tiny = yaml_layer(Path(str(resources.files("rlvr_cli") / "tiny" / "rlvr.yaml")))
    of_tiny = {one.key: one.value for one in tiny}
    made = list[Parameter]()
    for name, one in flags_of(command).items():
        text = escape(one.meaning)
        special = one.use.default_in.get(command)
        if special or not (one.default is None or one.default is False or one.default == {}):
            ours, theirs = _number(one.default), _number(of_tiny.get(one.name, one.default))
            default = special or (ours if theirs == ours else f"{ours}; tiny: {theirs}")
            text += f" [dim]\\[default: {default}][/]"
        types = (one.annotation, *get_args(one.annotation))
        number = next((f"<{kind.__name__}>" for kind in (int, float) if kind in types), None)
        said: dict[str, Any] = {"help": text, "metavar": one.use.metavar or number}
        flag = str(one.use.flag)
        if not flag.startswith("--"):
            option: Any = typer.Argument(**said)
        else:
            panel = one.use.panel or (TRAINING if one.use.read_by == ("train",) else SAMPLING)
            said["rich_help_panel"] = None if panel == "Options" else panel
            option = typer.Option(*filter(None, (SHORT.get(flag), flag)), **said)
        several = any(kind in str(one.annotation) for kind in ("tuple", "dict"))
        is_flag = one.annotation is bool
        kind: Any = bool if is_flag else list[str] | None if several else str | None
        annotation, unset = Annotated[kind, option], False if is_flag else None
        made.append(Parameter(name, Parameter.KEYWORD_ONLY, default=unset, annotation=annotation))

    def flags() -> None: ...

    flags.__signature__ = Signature(made)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(flags)
    return list(typer.main.get_command(app).params)


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
