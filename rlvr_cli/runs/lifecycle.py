"""Lead a run from start to end: measure, train step by step, guard, save, measure, report."""

import json
import shlex
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import Any

from rlvr_cli.config import as_yaml
from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import StepLines, draw_curves, print_curves
from rlvr_cli.console.tables import by_level
from rlvr_cli.core.errors import EngineError, Finding, RunStoppedError, UserError
from rlvr_cli.core.files import write_atomically
from rlvr_cli.core.jsonl import write_jsonl_line
from rlvr_cli.core.signals import Interrupts, is_interrupted
from rlvr_cli.core.text import shortened
from rlvr_cli.data.rows import response_row
from rlvr_cli.ranks.group import broadcast_from_first, is_first, meet, world
from rlvr_cli.runs import checkpoint, narration
from rlvr_cli.runs.checkpoint import Checkpoint
from rlvr_cli.runs.guards import MORE_SIGNAL, check
from rlvr_cli.runs.run_dir import Run
from rlvr_cli.runs.track import Mirrors
from rlvr_cli.training.state import State
from rlvr_cli.training.throughput import run_throughput
from rlvr_cli.training.trainer import Trainer

_SAVING_SHARE = 0.05
"""Share of the run's time that saving may take where `checkpoint.every` is none."""


class RunLifecycle:
    """One session of a run, from its first step or a checkpoint to its end or an interruption."""

    def __init__(
        self, trainer: Trainer, run: Run, display: Display, trackers: Sequence[str] = ()
    ) -> None:
        self.trainer, self.run, self.display = trainer, run, display
        self.trackers = trackers if is_first() else ()
        self.history: list[dict[str, Any]] = []
        self.progress: dict[str, Any] = {"before": None, "best": None, "seconds": 0.0}
        """The measurement before the first step, the best step, the seconds of earlier sessions."""
        self._started = self._saved_at = time.monotonic()
        self._state: State | None = None
        self._saved, self._saving_takes = 0, 0.0

    def resume(self, newest: Checkpoint | None, older: Iterator[Checkpoint]) -> None:
        """Put trainer and run directory where they were at the newest checkpoint, or at an `older`
        one where it cannot be read; at the start where there is none. Raises UserError if none can
        be read, or if it is of another run."""
        trainer, directory, warn = self.trainer, self.run.directory, self.display.warn
        while newest is not None:
            try:
                state = newest.load_state()
                checkpoint.load_weights(newest, trainer.session.policy.model)
                checkpoint.restore(trainer, state)
            except (checkpoint.OtherRunError, MemoryError):
                raise
            except Exception as error:  # whatever a state may hold
                reason = f"{type(error).__name__}: {shortened(str(error))}"
                warn(f"{newest.path} is damaged: it cannot be read ({reason})")
                newest = next(older)
                continue
            self.progress, self._saved = state.values["progress"], trainer.step
            if note := checkpoint.other_torch(state):
                warn(f"{newest.path}: {note}")
            break
        step = trainer.step
        steps = {saved.step for saved in checkpoint.checkpoints(directory)}
        checkpoint.remove_checkpoints(directory, {saved for saved in steps if saved > step})
        if newest is not None and (changed := self.run.rollouts_error(step)):
            warn(f"{directory}/rollouts: not as the run wrote it: {changed}")
        self.history = self.run.truncate_to(step)
        if len(self.history) < step:
            readable = f"{len(self.history)} of {step} steps can be read"
            warn(f"{directory}/metrics.jsonl: {readable}; guards and curves go without the others")
        where = f"from the end of step {step}" if step else "no step was saved, so from the start"
        self.display.say("resume", f"{directory}: {where}")
        self.run.write("config.yaml", as_yaml(trainer.config))

    def run_to_end(self) -> None:
        """Train to the last step, measuring before and after. Raises UserError, EngineError,
        RunStoppedError or KeyboardInterrupt where it ends early; it can then be resumed."""
        try:
            self._run_to_end()
        except RunStoppedError:
            raise
        except Exception as error:
            if not isinstance(error, UserError | EngineError | OSError) and is_interrupted():
                # Of several processes another has ended, and so all were told to.
                raise KeyboardInterrupt from None
            with suppress(Exception):  # the disk may be full
                self._save_together()
            hint, directory = self._resume_hint(), self.run.directory
            if isinstance(error, BrokenPipeError):
                self.display.result("resume", f"nobody reads stdout any more; {hint}")
                raise
            if isinstance(error, UserError | EngineError):
                raise type(error)(f"{error}; {hint}") from None
            if isinstance(error, OSError):
                raise UserError(
                    f"the run cannot be written, {error.filename or directory}: {error.strerror}; "
                    f"what is on disk is good: {hint}"
                ) from None
            # An engine's, a driver's or our fault: its traceback goes to a file.
            path, step = directory / "error.txt", self.trainer.step + 1
            with suppress(OSError):
                write_atomically(path, "".join(traceback.format_exception(error)))
            reason = f"{type(error).__name__}: {' '.join(str(error).split()) or 'no reason given'}"
            raise UserError(f"step {step} failed: {reason} (see {path}); {hint}") from None

    def _run_to_end(self) -> None:
        try:
            with Interrupts(alone=world() == 1) as interrupts:
                with interrupts.interruptible():
                    self.progress["before"] = self.progress["before"] or self._measured("before")
                trainer, warn = self.trainer, self.display.warn
                to = self.trackers, self.run.directory, trainer.config, trainer.step + 1, warn
                with closing(Mirrors(*to)) as mirrors:
                    if not trainer.step:
                        mirrors.send_measured(0, self.progress["before"])
                    self._train(interrupts, mirrors)
                    with interrupts.interruptible():
                        after = self._measured("after")
                    mirrors.send_measured(trainer.step, after)
        except KeyboardInterrupt:
            self._save_together()
            self._conclude("interrupted after")
            self.display.result("resume", self._resume_hint())
            raise
        except RunStoppedError:
            self._conclude("stopped after")
            raise
        self._conclude("done:", after)

    def _train(self, interrupts: Interrupts, mirrors: Mirrors) -> None:
        trainer, config, steps = self.trainer, self.trainer.config, self.trainer.config.steps
        lines = StepLines(self.display, steps, bool(trainer.held_out and config.eval.every))
        with self.display.progress("training", steps, done=trainer.step) as bar:
            trainer.watch = bar.enter
            for result in trainer.train_steps(interrupts.interruptible):
                self.run.record(result)
                metrics = result.metrics
                rollouts = chain.from_iterable(group.rollouts for group in result.sampled)
                mirrors.send(metrics, map(response_row, rollouts))
                self.history.append(metrics)
                value, best = metrics.get("held_out_pass@1"), self.progress["best"]
                is_best = value is not None and (best is None or value > best["pass@1"])
                if is_best:
                    self.progress["best"] = {"step": result.step, "pass@1": value}
                of_run = {"progress": self.progress | {"seconds": self._seconds()}}
                self._state = checkpoint.state_of(trainer) | State(of_run, {})
                findings = self._findings()
                stop = next((finding.text for finding in findings if finding.is_error), None)
                if broadcast_from_first(self._is_due()) or is_best or stop:
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

    def _findings(self) -> list[Finding]:
        """Return the guards' findings about the newest step; an error stops the run."""
        config = self.trainer.config
        findings = check(self.history, config.guards)
        if self.trainer.is_stopped and (refill := config.algorithm.filter):
            tried = f"{refill.max_gen_batches} generation batches did not fill the batch"
            remedy = f"for a new run {MORE_SIGNAL}, or raise algorithm.filter.max_gen_batches"
            findings.append(Finding(f"step {self.trainer.step}: {tried}; {remedy}", is_error=True))
        return findings

    def _seconds(self) -> float:
        """Return the seconds that the run has taken, in all of its sessions."""
        return float(self.progress["seconds"] + time.monotonic() - self._started)

    def _save(self) -> None:
        """Save the end of the newest step, unless it is saved already or no longer in memory: the
        next step has begun to update, or the step's own state was not recorded."""
        trainer, state, directory = self.trainer, self._state, self.run.directory
        if state is None or not self._saved < state.values["step"] == trainer.step:
            return
        if not trainer.is_between_steps:
            return
        started = time.monotonic()
        policy = trainer.session.policy
        checkpoint.save_checkpoint(directory, trainer.step, policy, trainer.config, state)
        self._saved = trainer.step
        best, keep = self.progress["best"], trainer.config.checkpoint.keep
        checkpoint.prune_checkpoints(directory, keep, best and best["step"])
        self._saved_at = time.monotonic()
        self._saving_takes = self._saved_at - started

    def _save_together(self) -> None:
        """Save the end of the newest step, unless one process failed alone: each writes a part."""
        if meet():
            self._save()

    def _is_due(self) -> bool:
        """Return whether to save now: at every `every`-th step; without `every`, once saving is a
        small share of the time since the last checkpoint; in any case after `minutes`."""
        settings, since = self.trainer.config.checkpoint, time.monotonic() - self._saved_at
        is_due = self._saving_takes <= _SAVING_SHARE * since
        if settings.every is not None:
            is_due = self.trainer.step % settings.every == 0
        return is_due or since >= 60 * settings.minutes

    def _measured(self, when: str) -> dict[str, Any] | None:
        """Measure the held-out sets and print their figures. Return those of the first set, and of
        several sets all by name as `sets`; None without a held-out set."""
        if not self.trainer.held_out:
            return None
        with self.display.progress("measuring", len(self.trainer.held_out), lines=True) as bar:
            self.trainer.watch = lambda *_: bar.tick()
            groups, sets = self.trainer.measure()
        self.run.write_rollouts(f"held-out-{when}", groups)
        for name, figures in sets.items():
            text = f"{narration.format_figures(figures)} {when} training ({figures['settings']})"
            self.display.say("pass@1", f"{name}: {text}" if name else text)
            narration.warn_of_unjudged(figures, self.display)
        first = dict(next(iter(sets.values())))
        return first if "" in sets else first | {"sets": sets}

    def _resume_hint(self) -> str:
        words = ["rlvr", "train", "--resume", str(self.run.directory)]
        if self.trainer.session.rewarder.own:  # code is only taken from the command line
            words += [f"--reward={name}" for name in self.trainer.config.reward.functions]
        return f"saved up to step {self._saved}; go on with {shlex.join(words)}"

    def _conclude(self, how: str, after: dict[str, Any] | None = None) -> None:
        """Write the summary and print the results."""
        steps, directory, minutes = self.trainer.step, self.run.directory, self._seconds() / 60
        before, best = self.progress["before"], self.progress["best"]
        figures = run_throughput(self.history)
        summary = {
            "steps": steps,
            "minutes": round(minutes, 3),
            "before": before,
            "after": after,
            "best": best,
            "figures": figures,
            "model": f"checkpoints/step-{self._saved}" if self._saved else None,
        }
        self.run.write("curves.txt", draw_curves([self.history]) + "\n")
        self.run.write("summary.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
        print_curves([self.history], self.display)
        narration.say_throughput(figures, self.display)
        narration.warn_of_outcome(self.trainer, self.history, self.display)
        if before and after:
            for name, now in after.get("sets", {"": after}).items():
                then = before.get("sets", {"": before}).get(name)
                texts = narration.format_figures(then), narration.format_figures(now)
                change = "{} before, {} after training".format(*texts)
                of_set = f"{name}: " if name else ""
                self.display.result("pass@1", f"{of_set}{change} ({now['settings']})")
            levels = [figures.get("by_level", {}) for figures in (before, after)]
            if levels[0].keys() == levels[1].keys() != set():
                self.display.table(by_level(*levels))
        if best:
            where = f"checkpoints/step-{best['step']}"
            self.display.say("best", f"pass@1 {best['pass@1']:.3f} at {where}")
        self.display.result("run", f"{how} {steps} steps, {minutes:.2f} minutes; {directory}")
        if self._saved:
            narration.say_what_is_next(self.trainer, directory, self.display)
