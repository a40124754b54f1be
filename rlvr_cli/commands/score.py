"""`rlvr eval --responses`: the same report for responses made elsewhere, without a model."""

import os

from rlvr_cli.commands.publish import Asked, earlier_results, publish
from rlvr_cli.config import Config
from rlvr_cli.display import Display, Pace
from rlvr_cli.fingerprint import data_hash, judging
from rlvr_cli.report import Result, check_fields, judged_problems
from rlvr_cli.results import ResultDirectory
from rlvr_cli.scoring import judged_rows, read_responses
from rlvr_cli.types import Problem
from verifiers import Verifier


def score(config: Config, source: str, asked: Asked, display: Display) -> None:
    """Judge the rows of a file or stdin and publish the figures. Raises UserError."""
    given = read_responses(source, config.data.limit, config.data.skip_bad)
    ours: dict[tuple[str, str], dict[str, Problem]] = {}
    for row in given:
        ours.setdefault(row.label, {}).setdefault(row.problem.id, row.problem)
    problems = {label: tuple(by_id.values()) for label, by_id in ours.items()}
    for _, data in problems:
        fields = {key for row in given if row.label[1] == data for key in row.problem.extra}
        check_fields(asked.by, fields, data)
    directory = None if asked.out is None else ResultDirectory(asked.out)
    answer_format = config.data.verifier or "any"
    results = []
    with Verifier(format=answer_format, workers=os.cpu_count() or 1) as verifier:
        theirs = earlier_results(asked, problems, verifier)
        total = sum(len(row.responses) for row in given)
        with display.progress("judging", total) as bar:
            pace = Pace(total)

            def on_batch(size: int) -> None:
                note = pace.count(size)
                bar.tick(note, advance=size, print_note=pace.is_due())

            for label in problems:
                part = [row for row in given if row.label == label]
                rows = judged_rows(part, verifier, on_batch)
                fingerprint = {"data": data_hash(problems[label])}
                fingerprint |= judging(answer_format)
                judged = judged_problems(rows, verifier.cluster)
                results.append(Result(*label, fingerprint, judged))
        display.say("judged", pace.summary("responses"))
        publish(results, asked, directory, theirs, display)
