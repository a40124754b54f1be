"""Help that takes its defaults from the settings, which are loaded only for it."""

from importlib import resources
from pathlib import Path
from typing import Any, cast

from rich.markup import escape
from typer.core import TyperCommand

TYPED_AS_IS = (bool, type(None))


class SettingsCommand(TyperCommand):
    """A command whose flags set settings: each shows the default of its own."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        defaults, meanings = shown_defaults(self.name), shown_meanings(self.name)
        for parameter in cast(Any, self.params):
            if parameter.help is None:
                parameter.help = meanings.get(parameter.name)
            if parameter.name in defaults and parameter.default is None:
                note = f"\\[default: {defaults[parameter.name]}]"
                parameter.help = f"{parameter.help} [dim]{note}[/]"
        super().format_help(ctx, formatter)


def shown_defaults(command: Any) -> dict[str, str]:
    """Return the default of each flag of a command, by the name of its parameter: the built-in one,
    and that of the built-in policy where it has one of its own."""
    from rlvr_cli.config import SETTINGS, Config, flags_of
    from rlvr_cli.core.layers import yaml_layer
    from rlvr_cli.core.settings import leaves

    file = Path(str(resources.files("rlvr_cli") / "tiny" / "rlvr.yaml"))
    own = dict(leaves(yaml_layer(file).values))
    defaults = dict(leaves(Config().model_dump()))
    shown = {}
    for name, key in flags_of(command).items():
        default, special = defaults.get(key), SETTINGS[key].default_in.get(command)
        if special is None and isinstance(default, TYPED_AS_IS):
            continue
        text = special or _number(default)
        is_own = special is None and own.get(key, default) != default
        shown[name] = f"{text}; tiny: {_number(own[key])}" if is_own else text
    return shown


def shown_meanings(command: Any) -> dict[str, str]:
    """Return the meaning of each flag's setting, by the name of the flag's parameter."""
    from rlvr_cli.config import Config, flags_of
    from rlvr_cli.core.settings import described

    meanings = {one.name: one.meaning for one in described(Config)}
    return {name: escape(meanings[key]) for name, key in flags_of(command).items()}


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
