"""Mirror a run's metrics.jsonl in trackers, for which a run neither waits nor fails."""

import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from rlvr_cli.config import Config
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import read_regular, write_atomically
from rlvr_cli.core.settings import leaves
from rlvr_cli.evaluation.measure import held_out_metrics

_TABLE_EVERY, _ROWS = 10, 8
_ID, _PROJECT = "track-id.txt", "rlvr"
_COLUMNS = ("id", "sample", "verdict", "reward", "problem", "response")
Send = Callable[[int, Mapping[str, float], list[list[str]]], None]
Client = tuple[Send, Callable[[], None]]
"""A function that queues a step's number, figures and some responses; one that sends the rest."""


def _tensorboard(run: Path, name: str, settings: dict[str, Any], first: int) -> Client:
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(str(run / "tensorboard"), purge_step=first)
    writer.add_text("settings", "".join(f"    {k}: {v}\n" for k, v in settings.items()))

    def send(step: int, figures: Mapping[str, float], rows: list[list[str]]) -> None:
        for key, value in figures.items():
            writer.add_scalar(key, value, step)
        if rows:
            text = "\n\n".join("\n".join(row) for row in rows)
            writer.add_text("responses", "    " + text.replace("\n", "\n    "), step)

    return send, writer.close


def _wandb(run: Path, name: str, settings: dict[str, Any], first: int) -> Client:
    wanted = {"PROJECT": _PROJECT, "SILENT": "true", "CONSOLE": "off"}
    # Seconds; wandb's own are 90 and for ever.
    wanted |= {"INIT_TIMEOUT": "30", "FINISH_TIMEOUT": "60", "FINISH_TIMEOUT_RAISES": "true"}
    if not os.environ.get("WANDB_API_KEY") and not (Path.home() / ".netrc").exists():
        wanted["MODE"] = "offline"
    for key, value in wanted.items():
        os.environ.setdefault(f"WANDB_{key}", value)
    import wandb

    opened = wandb.init(id=name, name=run.name, dir=str(run), config=settings, resume="allow")
    return _logging(wandb, opened)


def _trackio(run: Path, name: str, settings: dict[str, Any], first: int) -> Client:
    import trackio

    for module in [m for name, m in sys.modules.items() if name.startswith("trackio")]:
        vars(module)["print"] = lambda *texts, **options: None  # stdout is data
    quiet: Any = {"auto_log_gpu": False, "auto_log_cpu": False}
    opened = trackio.init(_PROJECT, name, config=settings, resume="allow", **quiet)
    return _logging(trackio, opened)


def _logging(library: Any, opened: Any) -> Client:
    """Return the client of a library with the interface of wandb."""

    def send(step: int, figures: Mapping[str, float], rows: list[list[str]]) -> None:
        table = {"responses": library.Table(columns=list(_COLUMNS), data=rows)} if rows else {}
        opened.log({**figures, **table}, step=step)

    return send, opened.finish


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
    """The trackers of a run, whose clients queue; a resumed run has the same name there."""

    def __init__(
        self,
        names: Sequence[str],
        run: Path,
        config: Config,
        first: int,
        warn: Callable[[str], None],
    ) -> None:
        self.warn, self.run, self.failed = warn, run, False
        self.clients: dict[str, Client] = {}
        settings, path = dict(leaves(config.model_dump(mode="json"))), run / _ID
        for name in names:
            with self._guarded(name):
                # The run's name there has a random end, which the run directory keeps.
                if not path.exists():
                    write_atomically(path, uuid.uuid4().hex[:8] + "\n")
                title = f"{run.resolve().name[-50:]}-{read_regular(path, 32).decode().strip()}"
                self.clients[name] = TRACKERS[name](run, title, settings, first)

    def send(self, metrics: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
        """Queue a step's figures, and in every tenth step its first responses."""
        step = metrics["step"]
        numbers = {key: value for key, value in metrics.items() if type(value) in (int, float)}
        figures = {key: value for key, value in numbers.items() if key != "step"}
        first = islice(rows, 0 if step % _TABLE_EVERY else _ROWS)
        table = [[str(row[key]) for key in _COLUMNS] for row in first]
        for name, (send, _) in list(self.clients.items()):
            with self._guarded(name):
                send(step, figures, table)

    def send_measured(self, step: int, figures: Mapping[str, Any] | None) -> None:
        """Queue the figures of the held-out sets, as `summary.json` has them: before training those
        of step 0, after it of the last one."""
        if figures is not None and self.clients:
            metrics = held_out_metrics(figures.get("sets", {"": figures}))
            self.send({"step": step, **metrics}, ())

    def close(self) -> bool:
        """Send what is queued; return whether all was sent."""
        for name, (_, close) in list(self.clients.items()):
            with self._guarded(name):
                close()
        return not self.failed

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        """Drop a tracker that fails, and warn how to send everything again."""
        try:
            yield
        except (Exception, SystemExit) as error:  # whatever a library may do
            self.failed = True
            self.clients.pop(name, None)
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            self.warn(
                f"--track {name}: {reason}; it gets no more, rlvr show {self.run} --track {name} "
                "sends all again"
            )
