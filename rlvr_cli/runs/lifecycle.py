"""The lifecycle of a run: measure, train step by step, guard, save, measure again, report."""

import shlex
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import Any

from rlvr_cli.console.curves import draw_curves
from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import StepLines
from rlvr_cli.console.tables import by_level
from rlvr_cli.core.errors import EngineError, RunStoppedError, UserError
from rlvr_cli.core.files import write_atomically
from rlvr_cli.core.jsonl import write_jsonl_line
from rlvr_cli.core.signals import Interrupts, asked
from rlvr_cli.data.rows import response_row
from rlvr_cli.ranks.group import decided, is_first, meet, world
from rlvr_cli.runs import narration
from rlvr_cli.runs.checkpoint import (
    State,
    checkpoints,
    prunable,
    remove_checkpoints,
    save_checkpoint,
    state_of,
)
from rlvr_cli.runs.guards import check
from rlvr_cli.runs.run_dir import Run
from rlvr_cli.runs.track import Mirrors
from rlvr_cli.training.throughput import run_throughput
from rlvr_cli.training.trainer import Trainer

_SAVING_SHARE = 0.05
_ERRORS = "error.txt"


class RunLifecycle:
    """One session of a run, from its first step or a checkpoint to its end or an interruption."""

    def __init__(
        self, trainer: Trainer, run: Run, display: Display, trackers: Sequence[str] = ()
    ) -> None:
        self.trainer, self.run, self.display, self.trackers = trainer, run, display, trackers
        self.history: list[dict[str, Any]] = []
        self.before: dict[str, Any] | None = None
        self.best: dict[str, Any] | None = None
        self.seconds = 0.0
        """Of the run before this session."""
        self._started = time.monotonic()
        self._state: State | None = None
        self._saved, self._saved_at = 0, self._started
        self._saving_takes = 0.0

    def resume(self, history: list[dict[str, Any]], progress: dict[str, Any]) -> None:
        """Restore history and progress of an earlier session."""
        self.history, self._saved = history, self.trainer.step
        self.before, self.best = progress["before"], progress["best"]
        self.seconds = progress["seconds"]

    def run_to_end(self) -> None:
        """Train to the last step, measuring before and after. Raises UserError, EngineError,
        RunStoppedError or KeyboardInterrupt where it ends early; it can then be resumed."""
        try:
            self._run_to_end()
        except BrokenPipeError:
            self._rescue()
            self.display.result("resume", f"nobody reads stdout any more; {self._resume_hint()}")
            raise
        except (UserError, EngineError) as error:
            self._rescue()
            raise type(error)(f"{error}; {self._resume_hint()}") from None
        except OSError as error:
            reason = f"{error.filename or self.run.directory}: {error.strerror}"
            raise UserError(
                f"the run cannot be written, {reason}; what is on disk is good: "
                f"{self._resume_hint()}"
            ) from None
        except RunStoppedError:
            raise
        except Exception as error:  # an engine, a driver, a fault of ours
            if asked():  # of several processes another has ended, and so all were told to
                raise KeyboardInterrupt from None
            self._rescue()
            raise UserError(self._reported(error)) from None

    def _run_to_end(self) -> None:
        try:
            with Interrupts(alone=world() == 1) as interrupts:
                with interrupts.interruptible():
                    self.before = self.before or self._measured("before")
                self._train(interrupts)
                with interrupts.interruptible():
                    after = self._measured("after")
        except KeyboardInterrupt:
            if meet():
                self._save()
            self._conclude("interrupted after")
            self.display.result("resume", self._resume_hint())
            raise
        except RunStoppedError:
            self._conclude("stopped after")
            raise
        self._conclude("done:", after)

    def _train(self, interrupts: Interrupts) -> None:
        config, steps = self.trainer.config, self.trainer.config.steps
        lines = StepLines(self.display, steps, bool(self.trainer.held_out and config.eval.every))
        place, first = self.run.directory, self.trainer.step + 1
        trackers = self.trackers if is_first() else ()
        with (
            closing(Mirrors(trackers, place, config, first, self.display.warn)) as mirrors,
            self.display.progress("training", steps, done=self.trainer.step) as bar,
        ):
            self.trainer.watch = bar.enter
            for result in self.trainer.train_steps(interrupts.interruptible):
                self.run.record(result)
                metrics, rollouts = result.metrics, (one.rollouts for one in result.sampled)
                mirrors.send(metrics, map(response_row, chain.from_iterable(rollouts)))
                self.history.append(metrics)
                is_best = self._note_best(metrics)
                self._state = self._snapshot()
                findings = check(self.history, config.guards)
                stop = next((finding.text for finding in findings if finding.is_error), None)
                if decided(self._is_due()) or is_best or stop:
                    self._save()
                lines.show(metrics, is_best)
                bar.tick()
                if not sys.stdout.isatty():
                    write_jsonl_line(sys.stdout, metrics)
                for finding in findings:
                    self.display.warn(finding.text)
                if stop:
                    raise RunStoppedError(f"{stop}; {self._resume_hint()}")
        self._save()
        if self.trainer.stopped and (refill := config.algorithm.filter):
            raise RunStoppedError(
                f"step {self.trainer.step}: {refill.max_gen_batches} generation batches did not "
                "fill the batch with mixed groups (algorithm.filter.on_cap stop); for a new run "
                "take easier or harder problems, more samples (-n) or "
                f"algorithm.filter.max_gen_batches; {self._resume_hint()}"
            )

    def _snapshot(self) -> State:
        state = state_of(self.trainer)
        seconds = self.seconds + time.monotonic() - self._started
        progress = {"before": self.before, "best": self.best, "seconds": seconds}
        return State(state.values | {"progress": progress}, state.tensors)

    def _save(self) -> None:
        """Save the end of the newest step, unless it is saved already or no longer in memory."""
        step, state = self.trainer.step, self._state
        if state is None or step == self._saved or not self.trainer.settled:
            return
        if state.values["step"] != step:  # stopped between a step's end and its snapshot
            return
        started = time.monotonic()
        trainer, directory = self.trainer, self.run.directory
        save_checkpoint(directory, step, trainer.session.policy, trainer.config, state)
        self._saved = step
        if is_first():
            steps = [checkpoint.step for checkpoint in checkpoints(directory)]
            best = self.best["step"] if self.best else None
            remove_checkpoints(directory, prunable(steps, trainer.config.checkpoint.keep, best))
        self._saved_at = time.monotonic()
        self._saving_takes = self._saved_at - started

    def _is_due(self) -> bool:
        """Return whether to save: at the steps that `every` names, else where it takes a small
        share of the time since the last checkpoint; in any case after so many minutes."""
        settings, since = self.trainer.config.checkpoint, time.monotonic() - self._saved_at
        if settings.every is not None and self.trainer.step % settings.every == 0:
            return True
        is_cheap = settings.every is None and self._saving_takes <= _SAVING_SHARE * since
        return is_cheap or since >= 60 * settings.minutes

    def _rescue(self) -> None:
        """Save the last whole step after a failure, if disk allows and no process failed alone."""
        with suppress(Exception):
            if meet():
                self._save()

    def _note_best(self, metrics: dict[str, Any]) -> bool:
        """Record the step if it is the best measured so far, and return whether it is."""
        found = metrics.get("held_out_pass@1")
        if found is None or (self.best is not None and found <= self.best["pass@1"]):
            return False
        self.best = {"step": metrics["step"], "pass@1": found}
        return True

    def _measured(self, when: str) -> dict[str, Any] | None:
        if not self.trainer.held_out:
            return None
        with self.display.progress("measuring", len(self.trainer.held_out)) as bar:
            self.trainer.watch = lambda *_: bar.tick()
            groups, found = self.trainer.measure()
        self.run.write_rollouts(f"held-out-{when}", groups)
        figures: dict[str, Any] = {}
        for name, of_set in found.items():
            said = f"{narration.in_words(of_set)} {when} training ({of_set['settings']})"
            self.display.say("pass@1", f"{name}: {said}" if name else said)
            narration.warn_of_unjudged(of_set, self.display)
            figures = figures or dict(of_set)
            if name:
                figures.setdefault("sets", {})[name] = of_set
        return figures

    def _resume_hint(self) -> str:
        words = ["rlvr", "train", "--resume", str(self.run.directory)]
        if self.trainer.session.rewarder.own:  # code is only taken from the command line
            words += [f"--reward={one}" for one in self.trainer.config.reward.functions]
        return f"saved up to step {self._saved}; go on with {shlex.join(words)}"

    def _conclude(self, how: str, after: dict[str, Any] | None = None) -> None:
        """Write the summary and report the results."""
        steps, directory = self.trainer.step, self.run.directory
        minutes = (self.seconds + time.monotonic() - self._started) / 60
        figures = run_throughput(self.history)
        summary = {
            "steps": steps,
            "minutes": round(minutes, 3),
            "before": self.before,
            "after": after,
            "best": self.best,
            "figures": figures,
            "model": f"checkpoints/step-{self._saved}" if self._saved else None,
        }
        self.run.write_summary(summary, draw_curves([self.history]))
        self.display.print_curves([self.history])
        narration.say_throughput(figures, self.display)
        narration.warn_of_outcome(self.trainer, self.history, self.display)
        if self.before and after:
            for name, now in after.get("sets", {"": after}).items():
                before = self.before.get("sets", {"": self.before}).get(name)
                change = f"{narration.in_words(before)} before, {narration.in_words(now)} after"
                of_set = f"{name}: " if name else ""
                self.display.result("pass@1", f"{of_set}{change} training ({now['settings']})")
            levels = [found.get("by_level", {}) for found in (self.before, after)]
            if levels[0].keys() == levels[1].keys() != set():
                self.display.table(by_level(*levels))
        if self.best:
            self.display.say(
                "best", f"pass@1 {self.best['pass@1']:.3f} at checkpoints/step-{self.best['step']}"
            )
        self.display.result("run", f"{how} {steps} steps, {minutes:.2f} minutes; {directory}")
        if self._saved:
            narration.say_what_is_next(self.trainer, directory, self.display)

    def _reported(self, error: Exception) -> str:
        """Return the error in one line; write its traceback to a file."""
        path = self.run.directory / _ERRORS
        with suppress(OSError):
            write_atomically(path, "".join(traceback.format_exception(error)))
        reason = " ".join(str(error).split()) or "no reason given"
        return (
            f"step {self.trainer.step + 1} failed: {type(error).__name__}: {reason} "
            f"(see {path}); {self._resume_hint()}"
        )
