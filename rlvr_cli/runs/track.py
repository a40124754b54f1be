"""Mirror a run's metrics.jsonl in trackers. A run neither waits for one nor fails with it."""

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

_TABLE_EVERY, _ROWS = 10, 8
_ID, _PROJECT = "track-id.txt", "rlvr"
_COLUMNS = ("id", "sample", "verdict", "reward", "problem", "response")
Row = Mapping[str, Any]


Send = Callable[[int, Mapping[str, float], Sequence[Sequence[str]]], None]
"""What a tracker is asked to queue: a step, its figures, some of its responses."""
Client = tuple[Send, Callable[[], None]]
"""How to send a step to a tracker, and how to close it."""


def _tensorboard(run: Path, name: str, settings: dict[str, Any], first: int) -> Client:
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(str(run / "tensorboard"), purge_step=first)
    writer.add_text("settings", "".join(f"    {k}: {v}\n" for k, v in settings.items()))

    def send(step: int, figures: Mapping[str, float], rows: Sequence[Sequence[str]]) -> None:
        for key, value in figures.items():
            writer.add_scalar(key, value, step)
        if rows:
            text = "\n\n".join("\n".join(row) for row in rows)
            writer.add_text("responses", "    " + text.replace("\n", "\n    "), step)

    return send, writer.close


def _wandb(run: Path, name: str, settings: dict[str, Any], first: int) -> Client:
    limits = {"INIT_TIMEOUT": "30", "FINISH_TIMEOUT": "60", "FINISH_TIMEOUT_RAISES": "true"}
    for key, value in {"SILENT": "true", **limits}.items():  # seconds; wandb's own: 90, for ever
        os.environ.setdefault(f"WANDB_{key}", value)
    import wandb

    is_known = os.environ.get("WANDB_API_KEY") or (Path.home() / ".netrc").exists()
    mode: Any = os.environ.get("WANDB_MODE") or ("online" if is_known else "offline")
    opened = wandb.init(
        project=os.environ.get("WANDB_PROJECT", _PROJECT),
        id=name,
        name=run.name,
        dir=str(run),
        config=settings,
        resume="allow",
        mode=mode,
        settings=wandb.Settings(silent=True, console="off"),
    )
    return _logged(wandb, opened), opened.finish


def _trackio(run: Path, name: str, settings: dict[str, Any], first: int) -> Client:
    import trackio

    for module in [one for key, one in sys.modules.items() if key.startswith("trackio")]:
        vars(module)["print"] = lambda *said, **how: None  # stdout is data
    quiet: Any = {"auto_log_gpu": False, "auto_log_cpu": False}
    opened = trackio.init(_PROJECT, name, config=settings, resume="allow", **quiet)
    return _logged(trackio, opened), opened.finish


def _logged(library: Any, opened: Any) -> Send:
    """Return what sends to a library with the interface of wandb."""

    def send(step: int, figures: Mapping[str, float], rows: Sequence[Sequence[str]]) -> None:
        table = library.Table(columns=list(_COLUMNS), data=list(map(list, rows))) if rows else None
        opened.log({**figures, **({"responses": table} if rows else {})}, step=step)

    return send


TRACKERS: dict[str, Callable[[Path, str, dict[str, Any], int], Client]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "trackio": _trackio,
}


def check_trackers(names: Sequence[str]) -> None:
    """Raise UserError for a tracker that is not known, or not installed."""
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
        settings = dict(leaves(config.model_dump(mode="json")))
        for name in names:
            with self._guarded(name):
                title = f"{run.resolve().name[-50:]}-{_identity(run)}"
                self.clients[name] = TRACKERS[name](run, title, settings, first)

    def send(self, metrics: Row, rows: Iterable[Row]) -> None:
        """Hand a step over; its first responses go along every so many steps."""
        if not self.clients:
            return
        is_due = metrics["step"] % _TABLE_EVERY == 0
        listed = [[str(r[key]) for key in _COLUMNS] for r in islice(rows, _ROWS if is_due else 0)]
        figures = {
            key: value
            for key, value in metrics.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and key != "step"
        }
        for name, (send, _) in list(self.clients.items()):
            with self._guarded(name):
                send(metrics["step"], figures, listed)

    def close(self) -> bool:
        """Let each send what it has queued; return whether all was sent."""
        for name, (_, close) in list(self.clients.items()):
            with self._guarded(name):
                close()
        return not self.failed

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        """Leave a tracker out that fails, and say how to send it all again."""
        try:
            yield
        except (Exception, SystemExit) as error:  # whatever a library may do
            self.failed = True
            self.clients.pop(name, None)
            reason = " ".join(str(error).split())[:200]
            again = f"rlvr show {self.run} --track {name}"
            self.warn(
                f"--track {name}: {type(error).__name__}: {reason}; it gets no more, "
                f"{again} sends all again"
            )


def _identity(run: Path) -> str:
    """Return the name's end, kept in the run's directory."""
    try:
        found = read_regular(run / _ID, 32).decode().strip()
    except (OSError, ValueError):
        found = ""
    if not (len(found) == 8 and found.isalnum()):
        found = uuid.uuid4().hex[:8]
        write_atomically(run / _ID, found + "\n")
    return found
