"""Show the results of `rlvr eval`, and how each differs from a baseline."""

import math
from collections.abc import Iterator, Sequence
from operator import itemgetter

from rlvr_cli.console import tables
from rlvr_cli.console.display import Display
from rlvr_cli.core.figures import Estimate, LeftOut, PairedDifference
from rlvr_cli.core.report import Comparison, Entry
from rlvr_cli.core.text import plural, shortened
from rlvr_cli.core.types import by_key

_SMALL_DIFFERENCE = 0.05
"""Difference in pass@1 that a comparison should be able to show."""
_COMPARED = ("model ", "server.model ", "data ")
"""Parts of a fingerprint that a comparison shows anyway: by name, or problem by problem."""
_MISSED_SHARE = 0.01
"""Share of right answers in another form up to which the two figures tell the same."""


def show_entries(entries: Sequence[Entry], display: Display) -> None:
    """Show the figures of each result, and a table of all at each k."""
    has_several = len(entries) > 1
    for entry in entries:
        _show_result(entry, has_several, display)
    columns = ["k", "problems", "pass@k [95 %]", "cons@k [95 %]"]
    if has_several:
        columns = ["model", "data", *columns]
    display.table(tables.by_k(entries, columns))
    display.say("names", tables.OTHER_NAMES)


def _show_result(entry: Entry, name_model: bool, display: Display) -> None:
    """Show the figures of a result, and warn of what they leave out."""
    figures = entry.figures
    pass_at_1 = figures.pass_at[1]
    value = "not measured" if pass_at_1 is None else f"{pass_at_1.value:.4f}"
    model = f"with {entry.model} " if name_model else ""
    conditions = ", ".join(_conditions(entry))
    display.result("pass@1", f"{value} {model}on {entry.data} ({conditions})")

    parts = [f"{count} {verdict}" for verdict, count in figures.verdicts.items()]
    if figures.format_share is not None:
        parts.append(f"format right {tables.percent(figures.format_share)}")
    parts.append(f"cut off {tables.percent(figures.cut_off_share)}")
    if figures.response_length is not None:
        parts.append(f"{figures.response_length:.1f} tokens on average")
    display.say("responses", ", ".join(parts))
    if figures.without_answer:
        counts = (f"{count} {reason}" for reason, count in figures.without_answer.items())
        display.say("no answer", f"{', '.join(counts)}: they count as wrong")
    if entry.any_form is not None:
        _show_any_form(entry, entry.any_form, display)
    for field in entry.by:
        display.table(tables.by_field([entry], field), is_result=True)
    for left_out, items in by_key(figures.left_out.items(), key=itemgetter(1)).items():
        ks = ", ".join(str(k) for k, _ in items)
        display.warn(f"at k {ks}: {_left_out_in_words(left_out, figures.problems)}")
    unjudged = figures.timeouts + figures.unparseable_golds
    if unjudged:
        display.warn(
            f"{plural(unjudged, 'response')} could not be judged "
            f"({plural(figures.timeouts, 'timeout')}, {figures.unparseable_golds} with an "
            "unreadable gold answer); the figures leave them out"
        )


def _left_out_in_words(left_out: LeftOut, problems: int) -> str:
    """Say which problems pass@k and cons@k leave out, and in which direction that biases them."""
    count = plural(left_out.problems, "problem")
    text = f"the figures leave out {count} of {problems} with fewer judged responses: "
    if left_out.pass_at_1 is None:
        return f"{text}cannot tell which way, since none of theirs was judged"
    text += f"their pass@1 is {left_out.pass_at_1:.3f}, that of the others {left_out.others:.3f}, "
    if left_out.bias == "cannot tell":
        return f"{text}which cannot tell whether the figures are biased"
    return f"{text}so the figures are biased {left_out.bias}"


def _conditions(entry: Entry) -> Iterator[str]:
    """Yield with what a result was measured."""
    figures = entry.figures
    sampling = entry.fingerprint.sampling
    if sampling is None:
        yield plural(figures.problems, "problem")
        yield plural(figures.responses, "response")
    else:
        params = sampling.params
        yield tables.sampling_in_words(figures.problems, params, sampling.has_max_tokens)
        yield f"seed {sampling.seed}"
    if entry.failed:
        yield f"{sum(entry.failed.values())} missing"
    if entry.fingerprint.judging is not None:
        yield entry.fingerprint.judging.in_words


def _show_any_form(entry: Entry, any_form: Estimate, display: Display) -> None:
    """Show pass@1 of right answers in any form, and warn if the format misses some of them."""
    words = "where a right answer counts in any form"
    display.say("any form", f"pass@1 {tables.in_words(any_form)} {words}")
    pass_at_1 = entry.figures.pass_at[1]
    judging = entry.fingerprint.judging
    if pass_at_1 is None or judging is None or not any_form.value:
        return
    missed = 1 - pass_at_1.value / any_form.value
    if missed > _MISSED_SHARE:
        display.warn(
            f"{missed:.0%} of the right answers are in another form than asked "
            f"({judging.answer_format}): compare figures of one kind, or judge with --set "
            "data.answer_format=any"
        )


def show_paired(comparisons: Sequence[Comparison], display: Display) -> None:
    """Show how results of one command differ from their baselines, and in which conditions."""
    display.result("paired", tables.paired_in_words(comparisons))
    display.table(tables.differences(comparisons), is_result=True)
    for comparison in comparisons:
        model = comparison.model
        for difference in comparison.differs:
            if not difference.startswith(_COMPARED):
                display.say("differs in", f"{model}: {difference}")
        _warn_of_problems(comparison, f"{model}: ", comparison.against, display)


def show_comparison(
    comparison: Comparison, against: str, has_model: bool, display: Display
) -> None:
    """Show how a result differs from its baseline, which was read from `against`, and warn of what
    the differences leave out. `has_model`: the fingerprint says which model it is of."""
    count = plural(comparison.problems, "problem")
    display.result("against", f"{comparison.baseline}, {count}")
    table = [line[3:] for line in tables.differences([comparison])]
    display.table(table, is_result=True)
    if 1 in comparison.pass_at:
        _warn_if_too_few(comparison.pass_at[1], display)
    differing = comparison.differs
    if not differing and has_model:
        differing = ["nothing but chance: same fingerprint"]
    elif not differing:
        differing = ["nothing of problems and judging; what made the responses is not known"]
    for difference in differing:
        display.say("differs in", difference)
    _warn_of_problems(comparison, "", against, display)


def _warn_of_problems(comparison: Comparison, label: str, against: str, display: Display) -> None:
    """Warn of problems that the differences leave out, and of those with two gold answers."""
    left_out = {
        f"not in {against}": comparison.missing,
        f"only in {against}": comparison.only_there,
        "without a judged response on one side or on both": comparison.unjudged,
    }
    for reason, count in left_out.items():
        if count:
            display.warn(f"{label}the differences leave out {plural(count, 'problem')} {reason}")
    golds = comparison.other_golds
    if golds:
        problems = f"{plural(len(golds), 'problem')} (such as {shortened(golds[0])})"
        display.warn(f"{label}{problems} with another gold answer there: judged by another answer")


def _warn_if_too_few(difference: PairedDifference, display: Display) -> None:
    """Warn if the interval of a difference in pass@1 is too wide to show a small one, and say how
    many problems could."""
    low, high = difference.interval
    reach = min(1, max(difference.value - low, high - difference.value))
    if reach <= _SMALL_DIFFERENCE:
        return
    # The interval shrinks with the root of the number of problems.
    enough = math.ceil(difference.problems * (reach / _SMALL_DIFFERENCE) ** 2)
    display.warn(
        f"{plural(difference.problems, 'problem')} with so many samples cannot show a "
        f"difference in pass@1 below {100 * reach:.0f} points; for "
        f"{100 * _SMALL_DIFFERENCE:.0f} take about {enough:,} problems, or more samples"
    )
