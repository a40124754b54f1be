"""Print the lists of `--list` and `--settings`: a table, or JSONL in a pipe."""

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlvr_cli.algorithm.choices import ALGORITHMS
from rlvr_cli.config import Config
from rlvr_cli.config.built_in import known_sets
from rlvr_cli.console.display import print_list, wrapped
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import write_new, writing
from rlvr_cli.core.settings import default_in_words, settings_of
from rlvr_cli.core.text import printable, shortened
from rlvr_cli.data.gym import PREFIX
from rlvr_cli.data.sources import find_spec
from rlvr_cli.program.resolve import read_flags
from rlvr_cli.program.translate import HEADINGS, in_yaml, translate
from verifiers.gym import ACCEPTED


def list_algorithms() -> None:
    """Print the presets. A pipe gets every choice of theirs."""
    print_list(
        ({"algo": name, **algo.model_dump(mode="json")}, [name, str(algo)])
        for name, algo in ALGORITHMS.items()
    )


def list_sets() -> None:
    """Print the problem sets, and the generators of reasoning-gym."""
    rows = []
    for name in [*known_sets(), *(f"{PREFIX}{name}" for name in ACCEPTED)]:
        spec = find_spec(name)
        assert spec is not None
        splits = spec.split_names()
        row = {"name": name, "splits": splits, **spec.model_dump(exclude={"splits", "sizes"})}
        rows.append((row, [name, "+".join(splits), spec.description]))
    print_list(rows)


def list_settings(sections: Sequence[str]) -> None:
    """Print the settings, or those of some sections: name, default, flag and meaning.

    The meaning also lists the words that the value can be, and the kinds of a choice that have the
    setting. Raises UserError for a section that does not exist.
    """
    settings = list(settings_of(Config))
    for section in sections:
        if not any(f"{setting.name}.".startswith(f"{section}.") for setting in settings):
            names = dict.fromkeys(setting.name.split(".")[0] for setting in settings)
            raise UserError(f"--settings {section}: no such section; known: {', '.join(names)}")
    prefixes = tuple(f"{section}." for section in sections)
    rows = []
    for setting in settings:
        if sections and not f"{setting.name}.".startswith(prefixes):
            continue
        meaning = setting.meaning
        if setting.values:
            meaning += f" ({', '.join(setting.values)})"
        if setting.kinds:
            meaning += f" With {', '.join(setting.kinds)} only."
        flag = setting.use.flag
        commands = setting.use.flag_of or setting.use.read_by
        if flag and "train" not in commands:
            flag = f"{flag} of {' and '.join(commands)}"
        default = default_in_words(setting.default)
        row = {"name": setting.name, "default": default, "meaning": meaning, "flag": flag}
        rows.append((row, [setting.name, default, flag or "", meaning]))
    print_list(rows)


def list_translation(
    entries: Mapping[str, object], flags: Mapping[str, object], out: Path | None
) -> None:
    """Print what the settings of another program are here, and the line that trains so.

    Its flags are of this program. With `out`, write the settings to this new file. Raises UserError
    if there is nothing to translate, or if the file exists.
    """
    run = translate(entries, read_flags(flags, "train"))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for heading in HEADINGS:
        keys = [key for key in run.keys if key.heading == heading]
        if keys:
            print(heading)
        for key in keys:
            line = f"  {key.name} {shortened(in_yaml(key.value))}: {key.here}"
            print(wrapped(printable(line), width, 6))
    print(f"\n{run.command}")
    if run.undecided:
        print(wrapped(f"# not named there: {', '.join(run.undecided)}", width, 2))
    if out is not None:
        with writing(out):
            write_new(out, run.yaml)
        print(f"# settings: {out} (rlvr train --config {shlex.quote(str(out))})")
