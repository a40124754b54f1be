"""Make a flag for each setting that a command reads, and declare the options shared by commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
from rich.markup import escape
from typer.core import TyperCommand

if TYPE_CHECKING:
    from rlvr_cli.core.settings import Command, Setting

TRAINING = "Training"
SAMPLING = "Sampling"
OUTPUT = "Input and output"
REPORT = "Report"
SETTINGS = "Settings"
PANELS = (TRAINING, SAMPLING, OUTPUT, REPORT, SETTINGS)
"""In the order of help."""
output = partial(typer.Option, rich_help_panel=OUTPUT)
report = partial(typer.Option, rich_help_panel=REPORT)
config_option = partial(typer.Option, rich_help_panel=SETTINGS)
training = partial(typer.Option, rich_help_panel=TRAINING)
SHORT = {"--samples": "-n"}
FOREIGN = "foreign"
"""The name under which a command's context has the settings of another program."""

File = Path | None
Text = str | None
Texts = list[str] | None
"""The types of options that may be left out."""
ConfigFile = Annotated[
    Path | None, config_option("--config", help="Read settings from this YAML file.")
]
Set = Annotated[Texts, config_option("--set", help="Give any setting as section.key=value.")]
Processes = Annotated[
    int | None,
    config_option(min=1, max=1024, help="Data-parallel processes on this machine, one per GPU."),
]
Quiet = Annotated[bool, output("--quiet", "-q", help="Print results only.")]
Track = Annotated[
    Texts, output("--track", help="Also send the metrics to tensorboard, wandb or trackio.")
]


@dataclass(frozen=True)
class GivenFlags:
    """What a command line gives to the parameters that are made from settings."""

    sources: Texts
    rewards: Texts
    flags: Mapping[str, str | bool | Texts]
    """The others, by name."""


class SettingsCommand(TyperCommand):
    """A command with a flag for each setting that it reads, besides its function's parameters.

    The flags are made when they are first asked for, so that help of the program loads no settings.
    `given` has their values.
    """

    names: list[str] | None = None
    """The parameters made from settings. None until they are made."""
    _options: list[Any]

    @property
    def params(self) -> list[Any]:
        if self.names is None:
            declared = {option.name: option for option in self._options}
            added = []
            for option in setting_options(cast("Command", self.name)):
                if option.name in declared:  # its own help lacks the setting's default
                    declared[option.name].help += option.help[option.help.rfind(" [dim]") :]
                else:
                    added.append(option)
            self.names = [option.name for option in added]
            panels = [None, *PANELS]
            self._options = sorted(
                [*added, *declared.values()],
                key=lambda option: panels.index(getattr(option, "rich_help_panel", None)),
            )
        return self._options

    @params.setter
    def params(self, options: list[Any]) -> None:
        self._options = options

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Take the settings of other programs out, which only --translate wants."""
        if self.name == "train":
            takes_value = {
                word: not getattr(option, "is_flag", True)
                for option in self.params
                for word in option.opts
            }
            takes_value["--help"] = False
            args = self._without_foreign(ctx, args, takes_value)
        return super().parse_args(ctx, args)

    def _without_foreign(
        self, ctx: Any, args: list[str], takes_value: Mapping[str, bool]
    ) -> list[str]:
        """Return the words that are this command's. The others are in the context."""
        options = [word.partition("=")[0] for word in args if word.startswith("--")]
        if not any("=" in word and "." in word for word in args) and takes_value.keys() >= {
            *options
        }:
            return args
        from rlvr_cli.program.foreign_run import refusal_of, take_foreign

        ours, foreign = take_foreign(args, takes_value)
        ctx.meta[FOREIGN] = foreign
        if foreign and "--translate" not in ours:
            # The usage error is click's, which newer versions of typer bring along.
            usage_error: Any = typer.BadParameter.__mro__[1]
            raise usage_error(refusal_of("", list(foreign)), ctx=ctx)
        return ours

    def invoke(self, ctx: Any) -> Any:
        flags = {name: ctx.params.pop(name) for name in self.names or ()}
        sources = flags.pop("data", None)
        rewards = flags.pop("reward", None)
        ctx.obj = GivenFlags(sources=sources, rewards=rewards, flags=flags)
        return super().invoke(ctx)


def given(ctx: typer.Context) -> GivenFlags:
    """Return what the command line gave to the parameters that are made from settings."""
    values: GivenFlags = ctx.obj
    return values


def setting_options(command: "Command") -> list[Any]:
    """Return an option for each setting that has a flag of the command.

    Help shows the default, and that of the built-in policy if it has another.
    """
    from rlvr_cli.config import flags_of, yaml_layer

    tiny = yaml_layer(Path(str(resources.files("rlvr_cli") / "tiny" / "rlvr.yaml")))
    tiny_values = {key: value for key, value, _ in tiny}
    parameters = []
    for name, setting in flags_of(command).items():
        text = escape(setting.meaning)
        default = _default_in_words(setting, command, tiny_values)
        if default not in ("none", "false"):
            text += f" [dim]\\[default: {default}][/]"
        is_switch = setting.annotation is bool
        # A number is taken as text: the setting itself says what is wrong with one.
        kind: Any = str | None
        if is_switch:
            kind = bool
        elif any(word in str(setting.annotation) for word in ("tuple", "dict")):
            kind = list[str] | None
        parameter = Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=False if is_switch else None,
            annotation=Annotated[kind, _option(setting, text)],
        )
        parameters.append(parameter)

    def flags() -> None: ...

    flags.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(flags)
    return list(typer.main.get_command(app).params)


def _default_in_words(
    setting: "Setting", command: "Command", tiny_values: Mapping[str, object]
) -> str:
    """Return the default of a setting as help of a command shows it."""
    from rlvr_cli.core.settings import default_in_words

    if command in setting.use.default_in:
        return str(setting.use.default_in[command])
    default = default_in_words(setting.default)
    tiny_default = default_in_words(tiny_values.get(setting.name, setting.default))
    if default in ("none", "false") or tiny_default == default:
        return default
    return f"{default}; tiny: {tiny_default}"


def _option(setting: "Setting", text: str) -> object:
    """Return the declaration of a setting's flag, or of its argument, with this help."""
    types = (setting.annotation, *get_args(setting.annotation))
    number = next((f"<{kind.__name__}>" for kind in (int, float) if kind in types), None)
    metavar = setting.use.metavar or number
    flag = str(setting.use.flag)
    if not flag.startswith("--"):
        return typer.Argument(help=text, metavar=metavar)
    panel = setting.use.panel
    if panel is None:
        panel = TRAINING if setting.use.read_by == ("train",) else SAMPLING
    return typer.Option(
        *filter(None, (SHORT.get(flag), flag)),
        help=text,
        metavar=metavar,
        rich_help_panel=None if panel == "Options" else panel,
    )
