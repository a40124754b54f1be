"""Mirror a run's metrics.jsonl in trackers, for which a run neither waits nor fails."""

import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from rlvr_cli.config import Config, flat_settings
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, refuse_links, write_atomically
from rlvr_cli.core.jsonl import JsonObject
from rlvr_cli.core.step_figures import HeldOut, StepFigures, held_out_row
from rlvr_cli.core.text import one_line
from rlvr_cli.core.types import Response

_TABLE_EVERY = 10
"""Steps between two tables of responses."""
_ROWS = 8
"""Responses in a table."""
_ID = "track-id.txt"
_PROJECT = "rlvr"
_NO_FIGURES = ("step", "row_version")
"""The numbers of a line that are no figures of its step."""
_COLUMNS: dict[str, Callable[[Response], object]] = {
    "id": lambda response: response.problem.id,
    "sample": lambda response: response.sample,
    "verdict": lambda response: response.verdict,
    "reward": lambda response: response.reward,
    "problem": lambda response: response.problem.problem or None,
    "response": lambda response: response.text,
}


class Client(NamedTuple):
    """The two functions that a tracker has for us."""

    send: Callable[[int, Mapping[str, float], list[list[str]]], None]
    """Queue a step's number, its figures and some of its responses."""
    close: Callable[[], None]
    """Send what is queued."""


def _tensorboard(run: Path, name: str, settings: dict[str, Any], first_step: int) -> Client:
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(str(run / "tensorboard"), purge_step=first_step)
    writer.add_text("settings", "".join(f"    {k}: {v}\n" for k, v in settings.items()))

    def send(step: int, figures: Mapping[str, float], rows: list[list[str]]) -> None:
        for key, value in figures.items():
            writer.add_scalar(key, value, step)
        if rows:
            text = "\n\n".join("\n".join(row) for row in rows)
            writer.add_text("responses", "    " + text.replace("\n", "\n    "), step)

    return Client(send, writer.close)


def _wandb(run: Path, name: str, settings: dict[str, Any], first_step: int) -> Client:
    environment = {
        "PROJECT": _PROJECT,
        "SILENT": "true",
        "CONSOLE": "off",
        # Seconds; without these wandb waits 90, and for ever.
        "INIT_TIMEOUT": "30",
        "FINISH_TIMEOUT": "60",
        "FINISH_TIMEOUT_RAISES": "true",
    }
    if not os.environ.get("WANDB_API_KEY") and not (Path.home() / ".netrc").exists():
        environment["MODE"] = "offline"
    for key, value in environment.items():
        os.environ.setdefault(f"WANDB_{key}", value)
    import wandb

    session = wandb.init(id=name, name=run.name, dir=str(run), config=settings, resume="allow")
    return _logging(wandb, session)


def _trackio(run: Path, name: str, settings: dict[str, Any], first_step: int) -> Client:
    import trackio

    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("trackio"):
            vars(module)["print"] = lambda *texts, **options: None  # stdout is data
    session = trackio.init(
        _PROJECT, name, config=settings, resume="allow", auto_log_gpu=False, auto_log_cpu=False
    )
    return _logging(trackio, session)


def _logging(library: Any, session: Any) -> Client:
    """Return the client of a library with the interface of wandb."""

    def send(step: int, figures: Mapping[str, float], rows: list[list[str]]) -> None:
        values: dict[str, Any] = dict(figures)
        if rows:
            values["responses"] = library.Table(columns=list(_COLUMNS), data=rows)
        session.log(values, step=step)

    return Client(send, session.finish)


TRACKERS: dict[str, Callable[[Path, str, dict[str, Any], int], Client]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "trackio": _trackio,
}


def check_trackers(names: Sequence[str]) -> None:
    """Raise UserError for a tracker that does not exist, or is not installed."""
    for name in names:
        if name not in TRACKERS:
            raise UserError(f"--track {name:.50}: no such tracker; known: {', '.join(TRACKERS)}")
        if find_spec(name) is None:
            raise UserError(f"--track {name}: it is not installed; pip install {name}")


class Mirrors:
    """The trackers of a run, whose clients queue. A resumed run has the same name there."""

    def __init__(
        self,
        trackers: Sequence[str],
        run: Path,
        config: Config,
        first_step: int,
        warn: Callable[[str], None],
    ) -> None:
        self.warn = warn
        self.run = run
        self.has_failed = False
        self.clients: dict[str, Client] = {}
        settings = flat_settings(config)
        path = run / _ID
        for tracker in trackers:
            with self._guarded(tracker):
                refuse_links(run, (tracker,))
                # The run's name there has a random end, which the run directory keeps.
                if not path.exists():
                    write_atomically(path, uuid.uuid4().hex[:8] + "\n")
                end = read_regular(path, 32).decode().strip()
                name = f"{run.resolve().name[-50:]}-{end}"
                self.clients[tracker] = TRACKERS[tracker](run, name, settings, first_step)

    def send(self, figures: StepFigures, responses: Iterable[Response]) -> None:
        """Queue a step's figures, and in every tenth step its first responses."""
        first = islice(responses, 0 if figures.step % _TABLE_EVERY else _ROWS)
        table = [[str(cell_of(response)) for cell_of in _COLUMNS.values()] for response in first]
        self._queue(figures.step, figures.row, table)

    def send_measured(self, step: int, sets: Mapping[str, HeldOut]) -> None:
        """Queue the figures of held-out sets, if there are any. Those from before training belong
        to step 0, those from after it to the last step."""
        if sets:
            self._queue(step, held_out_row(sets), [])

    def _queue(self, step: int, row: JsonObject, table: list[list[str]]) -> None:
        """Queue the numbers of a row in each tracker."""
        figures = {
            key: value
            for key, value in row.items()
            if type(value) in (int, float) and key not in _NO_FIGURES
        }
        for tracker, client in list(self.clients.items()):
            with self._guarded(tracker):
                client.send(step, figures, table)

    def close(self) -> bool:
        """Send what is queued, and return whether everything was sent."""
        for tracker, client in list(self.clients.items()):
            with self._guarded(tracker):
                client.close()
        return not self.has_failed

    @contextmanager
    def _guarded(self, tracker: str) -> Iterator[None]:
        """Drop a tracker that fails, and warn how to send everything again."""
        try:
            yield
        except (Exception, SystemExit) as error:  # whatever a library may do
            self.has_failed = True
            self.clients.pop(tracker, None)
            self.warn(
                f"--track {tracker}: {type(error).__name__}: {one_line(error, 200)}; it gets no "
                f"more, rlvr show {self.run} --track {tracker} sends all again"
            )
