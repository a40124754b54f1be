"""`rlvr audit`: read problems and responses, and try the rewards of a training on them."""

import resource
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlvr_cli import config
from rlvr_cli.console.display import Display
from rlvr_cli.core.audit import AuditFigures
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.types import Problem
from rlvr_cli.data.problems import ProblemSet, load_all
from rlvr_cli.evaluation.imported import read_responses
from rlvr_cli.program.resolve import read_flags
from rlvr_cli.rewards.audit import Audit
from rlvr_cli.rewards.rewarder import Rewarder
from rlvr_cli.rewards.trials import ANSWER_FORMS
from rlvr_cli.setup.plan import choose_format
from verifiers import Verifier

MOST_PROBLEMS = 200
"""Problems that are tried, evenly spread, without --limit. Some 130 responses each take a minute
if the reward takes a millisecond."""


def audit_rewards(
    parameters: Mapping[str, object],
    sets: Sequence[str],
    file: Path | None,
    responses: Sequence[str],
    way: str | None,
    display: Display,
) -> AuditFigures:
    """Run `rlvr audit` and return its figures.

    `parameters` are flags of `rlvr train`, and `way` is a template with {answer} for answers that
    are written in no usual way. Raises UserError for anything wrong with the input, and if the
    reward fails wherever it is asked.
    """
    if way is not None and "{answer}" not in way:
        raise UserError("--way: write {answer} where the answer stands, as in 'So it is {answer}.'")
    assignments = config.yaml_layer(file) if file else []
    for key, value in read_flags(parameters, "train").items():
        assignments += config.flag_layer(key, value)
    settings = config.resolve([*assignments, *config.set_layer(sets)])
    data = settings.data
    named = None
    if parameters["data"] or not responses:
        named = load_all(data.sources, data.split or "test", data)
    rows = []
    for source in responses:
        responses_of_file = read_responses(source, data.limit, data.skip_bad, data.fields, named)
        rows += [response for response in responses_of_file if not response.has_failed]
    problems = named or ProblemSet(
        ", ".join(responses),
        tuple({row.problem.id: row.problem for row in rows}.values()),
        prompt="plain",
    )
    selected = _evenly_spaced(problems.problems) if data.limit is None else problems.problems
    answer_format = choose_format(problems, data)
    with (
        Verifier(format=answer_format) as verifier,
        Rewarder(settings.reward, settings.rollout.max_tokens) as rewarder,
        display.progress("audit", 2 * len(selected), lines=True) as bar,
    ):
        trying = Audit(rewarder, verifier, bar.tick)
        is_interrupted = False
        try:
            trying.try_plain_answers(selected, ANSWER_FORMS if way is None else {way: way})
            if trying.has_signal:
                trying.try_table()
                trying.ask_again()
                for row in rows:
                    trying.compare(row.problem, row.text, row.is_cut_off)
        except KeyboardInterrupt:
            if not trying.n_problems:
                raise
            is_interrupted = True
    seconds = sorted(trying.seconds)
    cases = trying.cases
    return AuditFigures(
        reward=list(settings.reward.functions),
        answer_format=answer_format,
        data=problems.name,
        problems=trying.n_problems,
        of=len(problems.problems),
        has_signal=trying.has_signal,
        plain=[case.rewards for case in cases],
        way=cases[0].answer_form if cases else None,
        example=cases[0].text(cases[0].gold) if cases else None,
        seconds=seconds[len(seconds) // 2] if seconds else None,
        slowest=seconds[-1] if seconds else None,
        memory_mb=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        checks=trying.checks(),
        note=_note(is_interrupted, trying.is_slow, len(selected)),
        is_interrupted=is_interrupted,
    )


def _note(is_interrupted: bool, is_slow: bool, count: int) -> str | None:
    """Return why the figures are of fewer problems or responses than they could be."""
    if is_interrupted:
        return (
            f"interrupted: these are the checks so far, of {count} problems that were to be tried"
        )
    return f"the reward is slow: of {count} problems the first were tried" if is_slow else None


def _evenly_spaced(problems: Sequence[Problem]) -> list[Problem]:
    """Return the most problems that are tried, at even distances."""
    count = min(MOST_PROBLEMS, len(problems))
    return [problems[number * len(problems) // count] for number in range(count)]
