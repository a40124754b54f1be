"""The table of a run's steps: a permanent line each, with the columns that fit."""

from collections.abc import Mapping
from typing import Any

from rlvr_cli.console.curves import MEASURED
from rlvr_cli.console.display import Display

COLUMNS = {
    "step": ("step", "d"),
    "reward": ("reward", ".3f"),
    "pass@1": ("pass@1", ".3f"),
    "response_length": ("length", ".1f"),
    "entropy": ("entropy", ".3f"),
    "mixed_share": ("mixed", ".2f"),
    MEASURED: ("held out", ".3f"),
    "cut_off_share": ("cut off", ".0%"),
    "format_share": ("format", ".0%"),
    "held_out_cons@k": ("cons@k", ".3f"),
    "approx_kl": ("kl to old", ".5f"),
    "clip_fraction": ("clipped", ".2%"),
    "grad_norm": ("gradient", ".3f"),
    "seconds_step": ("seconds", ".2f"),
    "tokens_per_second_rollout": ("tokens/s", ",.0f"),
}
"""Metric, its name and its form, in the order in which room is given."""
_LONGEST_NAME = 12
_IN_A_PIPE, _SCREEN, _GAP, _BEST = 80, 20, 2, " best"


class StepLines:
    """Prints steps to people as they end; `steps` are those of the whole run."""

    def __init__(self, display: Display, steps: int, held_out: bool) -> None:
        self.display, self.held_out = display, held_out
        self.sets: dict[str, tuple[str, str]] = {}
        """The columns of the held-out sets after the first, once they are measured."""
        self.every = -(-steps // (3 * _SCREEN)) if display.console.is_terminal else 1
        self.header, self.lines = "", 0

    def show(self, metrics: Mapping[str, Any], is_best: bool) -> None:
        """Print a step's line, below the header where it is due; of a long run only some steps, and
        those that measured held-out problems."""
        is_measured = metrics.get(MEASURED) is not None
        if self.display.quiet or not (is_measured or metrics["step"] % self.every == 0):
            return
        names = (key.partition("/")[2] for key in metrics if key.startswith(f"{MEASURED}/"))
        self.sets |= {f"{MEASURED}/{name}": (name[:_LONGEST_NAME], ".3f") for name in names}
        columns: dict[str, tuple[str, str]] = {}
        for key, column in COLUMNS.items():
            if self.held_out or "held_out" not in key:
                columns |= {key: column} | (self.sets if key == MEASURED else {})
        console = self.display.console
        columns = fitting(columns, console.width if console.is_terminal else _IN_A_PIPE)
        header = "".join(name.rjust(_width(name)) for name, _ in columns.values())
        if header != self.header or (console.is_terminal and self.lines % _SCREEN == 0):
            self.display.lines([header.rstrip()], "bold")
            self.header, self.lines = header, 0
        self.lines += 1
        line = ""
        for key, (name, form) in columns.items():
            cell = "-" if (value := metrics.get(key)) is None else f"{value:{form}}"
            line += (cell + (_BEST if is_best and key == MEASURED else "")).rjust(_width(name))
        self.display.lines([line.rstrip()], "green" if is_best else "")


def fitting(columns: Mapping[str, tuple[str, str]], width: int) -> dict[str, tuple[str, str]]:
    """Return the first columns that fit in a width, at least the first."""
    found: dict[str, tuple[str, str]] = {}
    for key, (name, form) in columns.items():
        width -= _width(name)
        if width < 0 and found:
            break
        found[key] = name, form
    return found


def _width(name: str) -> int:
    if name == "step":
        return len(name)
    return _GAP + (len("0.000" + _BEST) if name == "held out" else max(len(name), 6))
