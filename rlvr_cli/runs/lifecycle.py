"""Lead a run from start to end: measure, train step by step, save, measure again, report."""

import json
import shlex
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain

from rlvr_cli.config import as_yaml
from rlvr_cli.console.display import Display
from rlvr_cli.console.steps import StepLines, draw_curves, print_curves, with_ends
from rlvr_cli.core.errors import EngineError, Finding, RunStoppedError, UserError
from rlvr_cli.core.files import write_atomically
from rlvr_cli.core.signals import Interrupts, is_interrupted
from rlvr_cli.core.step_figures import HeldOut, StepFigures
from rlvr_cli.core.text import one_line, shortened
from rlvr_cli.core.types import Group, OnStep
from rlvr_cli.data.rows import as_row
from rlvr_cli.evaluation.held_out import MeasuredSets, held_out_sets, measured_sets
from rlvr_cli.ranks.group import broadcast_from_first, is_first, meet, world
from rlvr_cli.runs import checkpoint, narration
from rlvr_cli.runs.checkpoint import Checkpoint
from rlvr_cli.runs.guards import MORE_SIGNAL, check
from rlvr_cli.runs.run_dir import RunDirectory
from rlvr_cli.runs.summary import Best, Progress, Summary
from rlvr_cli.runs.track import Mirrors
from rlvr_cli.training.state import State
from rlvr_cli.training.throughput import run_throughput
from rlvr_cli.training.trainer import Trainer

_SAVING_SHARE = 0.05
"""Largest share of the run's time that saving may take if `checkpoint.every` is not set."""


@dataclass
class RunLifecycle:
    """Leads one session of a run, from its first step or a checkpoint to its end."""

    trainer: Trainer
    run: RunDirectory
    display: Display
    trackers: Sequence[str] = ()
    on_step: OnStep | None = None

    def __post_init__(self) -> None:
        self.history: list[StepFigures] = []
        """The figures of all steps so far."""
        self.before: MeasuredSets | None = None
        """The measurement before the first step."""
        self.best: Best | None = None
        self.earlier_seconds = 0.0
        """The seconds of earlier sessions."""
        self._state: State | None = None
        """The state at the end of the newest step."""
        self._started_at = self._saved_at = time.monotonic()
        self._saved_step = 0
        self._save_seconds = 0.0
        """The seconds that the newest checkpoint took."""
        self._listener_error: BaseException | None = None
        """What `on_step` raised."""

    def resume(self, newest: Checkpoint | None, older: Iterator[Checkpoint]) -> None:
        """Put trainer and run directory back to the newest checkpoint that can be read.

        The checkpoints in `older` are tried after `newest`. Without a `newest` one the run
        begins again at its first step. Raises UserError if no checkpoint can be read, or if it is
        another run's.
        """
        directory = self.run.directory
        if newest is not None:
            self._restore(newest, older)
            change = self.run.rollouts_error(self.trainer.step)
            if change is not None:
                self.display.warn(f"{directory}/rollouts: not as the run wrote it: {change}")
        step = self.trainer.step
        later = {saved.step for saved in checkpoint.checkpoints(directory) if saved.step > step}
        checkpoint.remove_checkpoints(directory, later)
        self.history = self.run.truncate_to(step)
        if len(self.history) < step:
            self.display.warn(
                f"{directory}/metrics.jsonl: {len(self.history)} of {step} steps can be read; "
                "guards and curves go without the others"
            )
        start = f"from the end of step {step}" if step else "no step was saved, so from the start"
        self.display.say("resume", f"{directory}: {start}")
        if self.trainer.config.samples_beside:
            stored = "none" if self.trainer.next_batch is None else f"that of step {step + 1}"
            self.display.say(
                "ahead",
                f"stored batches, which train as they are: {stored}; servers sample the later ones "
                "again, with the same prompts, seeds and, up to rounding, tokens",
            )
        self.run.write("config.yaml", as_yaml(self.trainer.config))

    def _restore(self, newest: Checkpoint, older: Iterator[Checkpoint]) -> None:
        """Restore the first of these checkpoints that can be read. Raises UserError if one is
        another run's. If none can be read, `older` raises it."""
        trainer = self.trainer
        for saved in chain([newest], older):
            try:
                state = saved.load_state()
                checkpoint.load_weights(saved, trainer.session.policy.model)
                checkpoint.restore(trainer, state)
            except (checkpoint.OtherRunError, MemoryError):
                raise
            except Exception as error:  # a damaged state may raise anything
                self.display.warn(
                    f"{saved.path} is damaged: it cannot be read ({type(error).__name__}: "
                    f"{shortened(str(error))})"
                )
                continue
            progress = checkpoint.RUN_VALUES.validate_python(state.values).progress
            self.before = progress.before
            self.best = progress.best
            self.earlier_seconds = progress.seconds
            self._saved_step = trainer.step
            note = checkpoint.other_torch(state)
            if note is not None:
                self.display.warn(f"{saved.path}: {note}")
            return

    def run_to_end(self) -> None:
        """Train to the last step, and measure before and after.

        Raises UserError, EngineError, RunStoppedError, KeyboardInterrupt, or what `on_step` raised,
        if the run ends early. It can then be resumed.
        """
        try:
            self._run_and_conclude()
        except RunStoppedError:
            raise
        except (Exception, SystemExit) as error:
            is_reported = isinstance(error, UserError | EngineError | OSError)
            if not is_reported and is_interrupted():
                # Another process ended, so all were told to stop: this error is only its effect.
                raise KeyboardInterrupt from None
            with suppress(Exception):  # the disk may be full
                self._save_together()
            if error is self._listener_error or isinstance(error, BrokenPipeError):
                reason = one_line(error)
                if isinstance(error, BrokenPipeError):
                    reason = "nobody reads stdout any more"
                self.display.advise(f"{reason}; {self._resume_hint()}")
                raise
            raise self._as_reported(error) from error

    def _as_reported(self, error: BaseException) -> UserError | EngineError:
        """Return the error as one line that says how to resume the run. An unexpected one leaves
        its traceback in error.txt."""
        hint = self._resume_hint()
        directory = self.run.directory
        if isinstance(error, UserError | EngineError):
            return type(error)(f"{error}; {hint}")
        if isinstance(error, OSError):
            return UserError(
                f"the run cannot be written, {error.filename or directory}: {error.strerror}; "
                f"what is on disk is good: {hint}"
            )
        path = directory / "error.txt"
        with suppress(OSError):
            write_atomically(path, "".join(traceback.format_exception(error)))
        reason = one_line(error, None) or "no reason given"
        return UserError(
            f"step {self.trainer.step + 1} failed: {type(error).__name__}: {reason} (see {path}); "
            f"{hint}"
        )

    def _run_and_conclude(self) -> None:
        try:
            after = self._measure_and_train()
        except KeyboardInterrupt:
            self._save_together()
            self._conclude("interrupted after")
            self.display.advise(self._resume_hint())
            raise
        except RunStoppedError:
            self._save_together()  # what a guard stops is saved already, `on_step` may stop it too
            self._conclude("stopped after")
            raise
        self._conclude("done:", after)

    def _measure_and_train(self) -> MeasuredSets | None:
        """Measure, train and measure again. Return the last measurement."""
        trainer = self.trainer
        with Interrupts(alone=world() == 1) as interrupts:
            with interrupts.interruptible():
                if self.before is None:
                    self.before = self._measure("before")
            mirrors = Mirrors(
                self.trackers if is_first() else (),
                self.run.directory,
                trainer.config,
                first_step=trainer.step + 1,
                warn=self.display.warn,
            )
            with closing(mirrors):
                if trainer.step == 0 and mirrors.clients:
                    mirrors.send_measured(0, _sets_of(self.before))
                self._train(interrupts, mirrors)
                with interrupts.interruptible():
                    after = self._measure("after")
                mirrors.send_measured(trainer.step, _sets_of(after))
        return after

    def _train(self, interrupts: Interrupts, mirrors: Mirrors) -> None:
        """Train to the last step, and record, save and show every step. Raises RunStoppedError if
        a guard ends the run."""
        trainer = self.trainer
        steps = trainer.config.steps
        is_measured = bool(trainer.held_out and trainer.config.eval.every)
        lines = StepLines(self.display, steps, is_measured)
        with self.display.progress("training", steps, completed=trainer.step) as bar:
            trainer.watch = bar.enter
            for result in trainer.train_steps(interrupts.interruptible):
                figures = result.figures
                self.run.record(result)
                mirrors.send(
                    figures, chain.from_iterable(group.rollouts for group in result.sampled)
                )
                self.history.append(figures)
                is_best = self._note_best(figures)
                progress = Progress(before=self.before, best=self.best, seconds=self._seconds())
                self._state = checkpoint.state_of(trainer, progress)
                findings = self._findings()
                errors = [finding.text for finding in findings if finding.is_error]
                # The clocks of several processes differ: the first one decides for all.
                is_due = broadcast_from_first(self._is_due())
                if is_due or is_best or errors:
                    self._save()
                lines.show(figures, is_best)
                bar.tick()
                self._tell_listener(figures, result.sampled)
                for finding in findings:
                    self.display.warn(finding.text)
                if errors:
                    raise RunStoppedError(f"{errors[0]}; {self._resume_hint()}")
        self._save()

    def _tell_listener(self, figures: StepFigures, groups: Sequence[Group]) -> None:
        """Call `on_step`, and keep what it raises apart from the errors of the run."""
        if self.on_step is None:
            return
        try:
            self.on_step(figures.row, [list(map(as_row, group.rollouts)) for group in groups])
        except (Exception, SystemExit) as error:
            self._listener_error = error
            raise

    def _note_best(self, figures: StepFigures) -> bool:
        """Return whether a step has the best held-out pass@1 so far, and note it if it has."""
        measured = figures.measured
        if measured is None or (self.best is not None and measured <= self.best.pass_at_1):
            return False
        self.best = Best(step=figures.step, pass_at_1=measured)
        return True

    def _findings(self) -> list[Finding]:
        """Return the guards' findings about the newest step. An error stops the run."""
        config = self.trainer.config
        findings = check(self.history, config.guards)
        refill = config.algorithm.filter
        if self.trainer.is_stopped and refill is not None:
            text = (
                f"step {self.trainer.step}: {refill.max_gen_batches} generation batches did not "
                f"fill the batch; for a new run {MORE_SIGNAL}, or raise "
                "algorithm.filter.max_gen_batches"
            )
            findings.append(Finding(text, is_error=True))
        return findings

    def _seconds(self) -> float:
        """Return the seconds that the run has taken, in all of its sessions."""
        return self.earlier_seconds + time.monotonic() - self._started_at

    def _save(self) -> None:
        """Save the end of the newest step, unless it is saved or no longer in memory."""
        trainer = self.trainer
        if self._state is None or not trainer.is_between_steps:  # a step is changing the weights
            return
        is_newest = checkpoint.RUN_VALUES.validate_python(self._state.values).step == trainer.step
        is_saved = trainer.step <= self._saved_step
        if is_saved or not is_newest:
            return
        directory = self.run.directory
        config = trainer.config
        started_at = time.monotonic()
        checkpoint.save_checkpoint(
            directory, trainer.step, trainer.session.policy, config, self._state
        )
        self._saved_step = trainer.step
        best_step = None if self.best is None else self.best.step
        checkpoint.prune_checkpoints(directory, config.checkpoint.keep, best_step)
        self._saved_at = time.monotonic()
        self._save_seconds = self._saved_at - started_at

    def _save_together(self) -> None:
        """Save the end of the newest step if all processes reach this point: each writes a part."""
        if meet():
            self._save()

    def _is_due(self) -> bool:
        """Return whether to save now: always after `minutes`, else at every `every`-th step. If
        `every` is not set, save when it costs a small share of the time since the last save."""
        settings = self.trainer.config.checkpoint
        seconds = time.monotonic() - self._saved_at
        if seconds >= 60 * settings.minutes:
            return True
        if settings.every is not None:
            return self.trainer.step % settings.every == 0
        return self._save_seconds <= _SAVING_SHARE * seconds

    def _measure(self, moment: str) -> MeasuredSets | None:
        """Measure the held-out sets. Print their figures, and return those of the first set. If
        there are several, `sets` has those of each. Return None without a held-out set."""
        trainer = self.trainer
        if not trainer.held_out:
            return None
        with self.display.progress("measuring", len(trainer.held_out), lines=True) as bar:
            trainer.watch = lambda *_: bar.tick()
            responses, sets = trainer.measure()
        self.run.write_rollouts(f"held-out-{moment}", responses)
        narration.say_measured(sets, moment, self.display)
        return measured_sets(sets)

    def _resume_hint(self) -> str:
        directory = str(self.run.directory)
        user_rewards = self.trainer.session.rewarder.user_rewards
        if any(term.is_object for term in user_rewards):
            call = f"train(resume={directory!r}, reward=[…])"
            return (
                f"saved up to step {self._saved_step}; go on from Python with {call} and the same "
                "functions"
            )
        words = ["rlvr", "train", "--resume", directory]
        if user_rewards:  # code is only taken from the command line
            words += [f"--reward={name}" for name in self.trainer.config.reward.functions]
        functions = self.trainer.config.algorithm.custom_functions
        words += [f"--set=algorithm.{name}={spec}" for name, spec in functions.items()]
        return f"saved up to step {self._saved_step}; go on with {shlex.join(words)}"

    def _conclude(self, ending: str, after: MeasuredSets | None = None) -> None:
        """Write the summary and print the results."""
        steps = self.trainer.step
        directory = self.run.directory
        minutes = self._seconds() / 60
        throughput = run_throughput(self.history)
        summary = Summary(
            steps=steps,
            minutes=round(minutes, 3),
            before=self.before,
            after=after,
            best=self.best,
            figures=throughput.row,
            model=f"checkpoints/step-{self._saved_step}" if self._saved_step else None,
        )
        text = json.dumps(summary.model_dump(by_alias=True), indent=2, ensure_ascii=False)
        measured = {0: _sets_of(self.before), steps: _sets_of(after)}
        curves = with_ends(self.history, measured if self.history else {})
        self.run.write("curves.txt", draw_curves([curves]) + "\n")
        self.run.write("summary.json", f"{text}\n")
        print_curves([curves], self.display)
        narration.say_throughput(throughput, self.display)
        narration.warn_of_outcome(self.trainer, self.history, self.display)
        narration.say_results(self.before, after, self.best, self.display)
        self.display.result("run", f"{ending} {steps} steps, {minutes:.2f} minutes; {directory}")
        if self._saved_step:
            narration.say_what_is_next(self.trainer, directory, self.display)


def _sets_of(measurement: MeasuredSets | None) -> dict[str, HeldOut]:
    """Return the figures of the held-out sets of a measurement, none if nothing was measured."""
    return {} if measurement is None else held_out_sets(measurement.by_name)
