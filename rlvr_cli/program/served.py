"""Ask a server for responses, for `rlvr eval` and `rlvr sample` with `--endpoint`."""

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from functools import cached_property

from rlvr_cli.config import Config
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.libraries import LOG
from rlvr_cli.core.report import Fingerprint, Sampling
from rlvr_cli.core.seeds import problem_seeds
from rlvr_cli.core.text import shortened
from rlvr_cli.core.types import Label, Response, SamplingParams, by_key
from rlvr_cli.data.problems import ProblemSet
from rlvr_cli.data.prompts import chat_of, template_text
from rlvr_cli.evaluation.fingerprint import data_hash, fingerprint, judging_by, rows_hash
from rlvr_cli.evaluation.imported import judged
from rlvr_cli.evaluation.replies import NoReplyError
from rlvr_cli.evaluation.served import Outcome, Request, Server
from rlvr_cli.evaluation.task import Deliver, Task
from rlvr_cli.program.problems import Sets
from rlvr_cli.ranks.process import world_size
from rlvr_cli.setup.plan import choose_format, with_boxed_prompt
from verifiers import OURS, Format, Verifier, open_judge

UNPINNED = "weights, chat template, precision, top_k and what else the server decides"


def is_writer() -> bool:
    """Return True. Raises UserError if there are several processes: the server is asked by one."""
    if world_size() > 1:
        raise UserError("--endpoint is asked by one process; leave --processes out")
    return True


def tasks(
    configs: Sequence[Config], sets: Sets, judge: str, began: datetime, display: Display
) -> Iterator[Task]:
    """Return the task of each configuration. Raises UserError for a model that is not served.

    Unlike a model here a server writes the date itself, so `began` says nothing to it.
    """
    return _tasks([Served(config, sets[config.data.source], judge) for config in configs])


def _tasks(served_sets: Sequence["Served"]) -> Iterator[Task]:
    """Look whether the server has each model, and yield the tasks."""
    for served_set in {served_set.config.model: served_set for served_set in served_sets}.values():
        served_set.server.models()
    for served_set in served_sets:
        yield Task(
            label=served_set.label,
            problems=served_set.problems,
            respond=served_set.respond,
            answer_format=served_set.answer_format,
            fingerprint=served_set.fingerprint,
            samples=served_set.params.samples,
        )


class Served:
    """A problem set as it is put to a served model."""

    def __init__(self, config: Config, problems: ProblemSet, judge: str = OURS) -> None:
        self.config = with_boxed_prompt(config, problems)
        self.label = Label(config.model, problems.name)
        self.judge = judge
        self.answer_format: Format = "any"
        if judge == OURS:
            self.answer_format = choose_format(problems, self.config.data)
        self.template = template_text(self.config.data.prompt or problems.prompt)
        self.problems = problems.problems[: config.data.limit]
        self.has_max_tokens = "max_tokens" in config.rollout.model_fields_set
        self.params = SamplingParams(
            samples=config.eval.samples,
            max_tokens=config.rollout.max_tokens,
            temperature=config.eval.temperature,
            top_p=config.eval.top_p,
        )
        self.requests = self._requests()

    def _requests(self) -> list[Request]:
        """Return the request for the responses to each problem."""
        requests = []
        if any(problem.opening for problem in self.problems):
            LOG.warning("a server begins each response itself: openings of the rows are not sent")
        seeds = problem_seeds(self.problems, self.config.seed)
        for problem, seed in zip(self.problems, seeds, strict=True):
            chat = chat_of(problem, self.template, self.config.data.system)
            messages = [{"role": role, "content": content} for role, content in chat]
            requests.append(Request(problem, messages, self.params.samples, seed))
        return requests

    @cached_property
    def server(self) -> Server:
        """Return the server, as the configuration names it."""
        settings = self.config.server
        return Server(
            endpoint=settings.endpoint or "",
            model=self.config.model,
            key_variable=settings.key_env,
            in_flight=settings.in_flight,
            timeout=settings.timeout,
            tries=settings.tries,
            template_arguments=self.config.data.chat,
            has_max_tokens=self.has_max_tokens,
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """Return what the figures are measured with, and what a server leaves open."""
        server = {
            "endpoint": self.config.server.endpoint,
            "model": self.config.model,
            "not pinned": UNPINNED,
        }
        messages = ([request.messages] for request in self.requests)
        return fingerprint(
            judging_by(self.answer_format, self.judge),
            data=data_hash(self.problems),
            source={"server": server},
            sampled={"prompts": rows_hash(messages), "prompt": self.template},
            sampling=Sampling(self.params, self.config.seed, self.has_max_tokens),
        )

    def respond(self, finished: Set[str], verifier: Verifier, deliver: Deliver) -> dict[str, str]:
        """Ask for the responses, and judge them as they come (`Task.respond`).

        Raises UserError if no request was answered, now or by an earlier command.
        """
        unfinished = [request for request in self.requests if request.problem.id not in finished]
        failures: dict[str, str] = {}

        def on_outcomes(outcomes: Mapping[int, Outcome]) -> None:
            tokens = 0.0
            responses: list[Response] = []
            for number, outcome in outcomes.items():
                if isinstance(outcome, NoReplyError):
                    failures[unfinished[number].problem.id] = str(outcome)
                    continue
                tokens += outcome.tokens
                responses += outcome.responses
            by_problem = by_key(judged(responses, verifier), lambda response: response.problem.id)
            deliver(by_problem, tokens)

        if unfinished:
            self.server.ask(unfinished, self.params, on_outcomes)
        if len(failures) == len(self.problems):
            problem, reason = next(iter(failures.items()))
            raise self.server.failure(f"no request was answered ({shortened(problem)}: {reason})")
        return failures


def sample(config: Config, problems: ProblemSet, display: Display, is_live: bool) -> list[Response]:
    """Run `rlvr sample` with the model of a server, and return the responses. None is shown live:
    they come whole."""
    task = Served(config, problems)
    task.server.models()
    outcomes: dict[int, Outcome] = {}
    task.server.ask(task.requests, task.params, outcomes.update)
    sampled: list[Response] = []
    with open_judge(OURS, format=task.answer_format) as verifier:
        for number, problem in enumerate(task.problems):
            outcome = outcomes[number]
            if isinstance(outcome, NoReplyError):
                display.warn(f"{shortened(problem.id)}: no reply: {outcome}")
            elif problem.answer is None:
                sampled += outcome.responses
            else:
                sampled += judged(outcome.responses, verifier)
    if not sampled:
        raise task.server.failure("no request was answered")
    return sampled
