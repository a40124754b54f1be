"""`rlvr eval --responses`: the same report for responses made elsewhere, without a model."""

from collections.abc import Sequence

from rlvr_cli.cli.publish import ReportOptions, earlier_results, publish
from rlvr_cli.config import Config
from rlvr_cli.console.display import Display
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.limits import usable_cores
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import Problem, by_key
from rlvr_cli.data.problems import load_problems
from rlvr_cli.data.sources import canonical
from rlvr_cli.evaluation import responses as made
from rlvr_cli.evaluation.fingerprint import data_hash, judging
from rlvr_cli.evaluation.report import BOTH, PEER, Result, check_fields, judged_problems
from rlvr_cli.evaluation.result_dir import ResultDirectory
from verifiers import OURS, Format, Verdict, open_judge


def score(
    config: Config,
    sources: Sequence[str],
    golds: Sequence[str],
    asked: ReportOptions,
    display: Display,
) -> None:
    """Judge the rows of files or stdin and publish the figures; `golds` may name the problem set
    that has their gold answers, if they have none of their own. Raises UserError."""
    made.refuse_twice(sources, "--responses ")
    data = config.data
    split, root = data.split or "test", data.root
    known = load_problems(canonical(golds[0]), split, root=root) if golds else None
    given = [
        row
        for source, name in zip(sources, made.source_names(sources), strict=True)
        for row in made.read_responses(source, data.limit, data.skip_bad, data.fields, known, name)
    ]
    places = [(row.where, row.problem) for row in given]
    made.check_problems(places, repeated=True, sets=[row.label[1] for row in given])
    for name, of_set in by_key(given, lambda row: row.label[1]).items():
        check_fields(asked.by, {key for row in of_set for key in row.problem.extra}, name)
    ours: dict[tuple[str, str], dict[str, Problem]] = {}
    for row in given:
        before = ours.setdefault(row.label, {}).setdefault(row.problem.id, row.problem).extra
        for field in asked.by:
            if (own := row.problem.extra.get(field)) != before.get(field):
                values = f"{shortened(str(own))} and {shortened(str(before.get(field)))}"
                raise UserError(
                    f"{row.where}: --by {field}: rows of problem {shortened(row.problem.id)} have "
                    f"{values}; it must be of the problem, not of a response"
                )
    problems = {label: tuple(by_id.values()) for label, by_id in ours.items()}
    parts = by_key(given, lambda row: row.label)
    directory = None if asked.out is None else ResultDirectory(asked.out)
    judges = [OURS, PEER] if asked.judge == BOTH else [asked.judge]
    form = data.answer_format if OURS in judges else "any"
    formats: dict[tuple[str, str], Format] = {
        label: form or made.format_of_rows(part) for label, part in parts.items()
    }
    with open_judge(judges[0]) as equality:
        other = [
            f"({row.where}: {shortened(row.own_gold)}, {shortened(row.problem.answer or '')})"
            for row in given
            if row.own_gold is not None
            and equality.equal(row.problem.answer or "", row.own_gold) != Verdict.CORRECT
        ]
        theirs = earlier_results(asked, problems, equality)
    if other:
        display.warn(
            f"{plural(len(other), 'row')} with another gold answer than the set's, which counts "
            f"{other[0]}: are they of this set?"
        )
    whole = len(known.problems) if known and data.limit is None else 0
    for (model, name), of_label in problems.items():
        if (missing := whole - len(of_label)) > 0:
            display.warn(
                f"{model}: no response to {missing} of the {plural(whole, 'problem')} of {name}; "
                "the figures leave them out"
            )
    if directory is not None:
        directory.hold()
    results = []
    with display.progress("judging", len(judges) * len(given), lines=True) as bar:
        for (model, name), part in parts.items():
            for judge in judges:
                form = formats[model, name] if judge == OURS else "any"
                with open_judge(judge, format=form, workers=usable_cores()) as verifier:
                    rows = made.judged_rows(part, verifier, lambda count: bar.tick(advance=count))
                    judged = judged_problems(rows, verifier.cluster)
                fingerprint = {"data": data_hash(problems[model, name])}
                fingerprint |= judging(form, judge, config.eval.votes)
                by_whom = f"{model} ({judge})" if judge != judges[0] else model
                results.append(Result(by_whom, name, fingerprint, judged))
    if data.answer_format is None and any(row.answer_format for row in given) and OURS in judges:
        display.say("judged as", f"{', '.join(dict.fromkeys(formats.values()))}, as the rows say")
    publish(results, asked, directory, theirs, display)
