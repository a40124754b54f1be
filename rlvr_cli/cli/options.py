"""Make a flag for each setting that a command reads, and declare the options shared by commands."""

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
    """A command with a flag for each setting that it reads and that its function does not declare.
    The flags are made when they are first asked for, so that help of the program loads no settings,
    and their values go to `ctx.obj`."""

    names: list[str] | None = None
    """The parameters that were made from settings; None before they are."""
    _options: list[Any]

    @property
    def params(self) -> list[Any]:
        if self.names is None:
            own = {option.name: option for option in self._options}
            made = []
            for option in setting_options(self.name):
                if option.name in own:  # help of the function's own has the setting's default
                    own[option.name].help += option.help[option.help.rfind(" [dim]") :]
                else:
                    made.append(option)
            self.names = [option.name for option in made]
            panels = [None, *PANELS]
            self._options = sorted(
                [*made, *own.values()],
                key=lambda option: panels.index(getattr(option, "rich_help_panel", None)),
            )
        return self._options

    @params.setter
    def params(self, own: list[Any]) -> None:
        self._options = own

    def invoke(self, ctx: Any) -> Any:
        ctx.obj = {name: ctx.params.pop(name) for name in self.names or ()}
        return super().invoke(ctx)


def setting_options(command: Any) -> list[Any]:
    """Return an option for each setting that has a flag of the command. Numbers are taken as text:
    the setting itself says what is wrong with one. Help shows the default, and that of the built-in
    policy where it has one of its own."""
    from rlvr_cli.config import flags_of, yaml_layer
    from rlvr_cli.core.settings import default_in_words

    tiny = yaml_layer(Path(str(resources.files("rlvr_cli") / "tiny" / "rlvr.yaml")))
    of_tiny = {given.key: given.value for given in tiny}
    made = list[Parameter]()
    for name, setting in flags_of(command).items():
        text, default = escape(setting.meaning), default_in_words(setting.default)
        if default not in ("none", "false"):
            theirs = default_in_words(of_tiny.get(setting.name, setting.default))
            default += f"; tiny: {theirs}" if theirs != default else ""
        default = setting.use.default_in.get(command, default)
        if default not in ("none", "false"):
            text += f" [dim]\\[default: {default}][/]"
        types = (setting.annotation, *get_args(setting.annotation))
        number = next((f"<{kind.__name__}>" for kind in (int, float) if kind in types), None)
        settings: dict[str, Any] = {"help": text, "metavar": setting.use.metavar or number}
        flag = str(setting.use.flag)
        if not flag.startswith("--"):
            option: Any = typer.Argument(**settings)
        else:
            is_trained = setting.use.read_by == ("train",)
            panel = setting.use.panel or (TRAINING if is_trained else SAMPLING)
            settings["rich_help_panel"] = None if panel == "Options" else panel
            option = typer.Option(*filter(None, (SHORT.get(flag), flag)), **settings)
        several = any(kind in str(setting.annotation) for kind in ("tuple", "dict"))
        is_flag = setting.annotation is bool
        kind: Any = bool if is_flag else list[str] | None if several else str | None
        annotation, unset = Annotated[kind, option], False if is_flag else None
        made.append(Parameter(name, Parameter.KEYWORD_ONLY, default=unset, annotation=annotation))

    def flags() -> None: ...

    flags.__signature__ = Signature(made)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(flags)
    return list(typer.main.get_command(app).params)
