"""Tables of figures, on entries made by hand."""

import csv
import io
from dataclasses import replace

import pytest

from rlvr_cli.console.tables import (
    FORMATS,
    as_csv,
    as_latex,
    as_markdown,
    by_field,
    by_k,
    counted,
    csv_text,
    differences,
    in_words,
    percent,
)
from rlvr_cli.core.figures import Estimate, Figures, PairedDifference
from rlvr_cli.core.report import Comparison, Entry, Fingerprint, Report


def estimate(value: float, problems: int = 9, error: float = 0.0) -> Estimate:
    return Estimate(value, (value - 0.1, value + 0.1), problems, error)


PASS_AT = {1: estimate(0.5), 2: estimate(0.625), 4: estimate(0.75, 8)}
CONS_AT = {1: estimate(0.5), 2: estimate(0.5), 4: None}


def figures(pass_at=PASS_AT, cons_at=CONS_AT, **more) -> Figures:
    values = {"problems": 9, "responses": 36, "format_share": 1.0, "cut_off_share": 0.125}
    values |= {"response_length": 12.34, "verdicts": {}}
    return Figures(pass_at=pass_at, cons_at=cons_at, **(values | more))


def entry(model="m", data="d", version=None, any_form=None, by=None, **measured) -> Entry:
    return Entry(model, data, version, Fingerprint(), figures(**measured), any_form, by or {})


def report_of(*entries, command="", **more) -> Report:
    return Report("2026-01-01", command, entries, **more)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "-"),
        (estimate(0.5), "0.500 [0.400, 0.600]"),
        (estimate(0.5, error=0.0123), "0.500 ±0.012 [0.400, 0.600]"),
    ],
)
def test_an_estimate_with_its_interval(given, expected):
    assert in_words(given) == expected


def test_shares_and_counts():
    assert [percent(share) for share in (None, 0.0, 0.1234, 1.0)] == [
        "-",
        "0.0%",
        "12.3%",
        "100.0%",
    ]
    assert [counted(None), counted(estimate(0.5, 7))] == [0, 7]


def test_a_line_for_every_k():
    assert by_k([entry()], ["k", "problems", "pass@k [95 %]", "cons@k [95 %]"]) == [
        ("k", "problems", "pass@k [95 %]", "cons@k [95 %]"),
        ("1", "9", "0.500 [0.400, 0.600]", "0.500 [0.400, 0.600]"),
        ("2", "9", "0.625 [0.525, 0.725]", "0.500 [0.400, 0.600]"),
        ("4", "8", "0.750 [0.650, 0.850]", "-"),
    ]


def test_a_column_that_is_empty_in_every_row_is_left_out():
    names = ("model", "data", "k", "problems", "pass@k [95 %]", "cons@k [95 %]")
    assert by_k([entry(), entry(model="n")])[0] == names  # neither version nor any form
    unknown = dict.fromkeys((1, 2, 4))
    assert by_k([entry(cons_at=unknown)])[0] == names[:-1]
    assert by_k([entry(cons_at=unknown), entry()])[0] == names


def test_several_results_stand_beside_one_another_at_each_k():
    pass_at = {1: None, 2: estimate(0.25)}
    other = entry("n", version=3, any_form=estimate(0.75), pass_at=pass_at)
    header, *lines = by_k([entry(), other])
    assert header[:5] == ("model", "data", "version", "k", "problems")
    assert header[5:] == ("pass@k [95 %]", "cons@k [95 %]", "pass@1 in any form [95 %]")
    assert [(line[0], *line[2:5]) for line in lines] == [
        ("m", "", "1", "9"),
        ("n", "3", "1", "0"),
        ("m", "", "2", "9"),
        ("n", "3", "2", "9"),
        ("m", "", "4", "8"),
    ]
    assert [line[5][:5] for line in lines] == ["0.500", "-", "0.625", "0.250", "0.750"]
    assert [line[7][:5] for line in lines] == ["-", "0.750", "-", "-", "-"]


def test_the_values_of_a_field():
    part = figures(problems=4)
    other = figures({1: None}, {1: None})
    header, line = by_field([entry(by={"level": {"3": part}})], "level")
    assert ", ".join(header) == "level, problems, pass@1 [95 %], pass@4 [95 %]"
    assert " ".join(line) == "3 9 0.500 [0.400, 0.600] 0.750 [0.650, 0.850] of 8"
    several = [entry(by={"level": {"3": part}}), entry(model="n", by={"level": {"2": other}})]
    header, first, second = by_field(several, "level", ("model", "data"))
    assert header[:4] == ("model", "data", "level", "problems")
    assert first[:4] == ("m", "d", "3", "9")
    assert second == ("n", "d", "2", "0", "-", "-")


def difference(p, better, worse, value=0.25):
    return PairedDifference(value, (value - 0.1, value + 0.1), p, better, worse, problems=9)


def comparison(model="n", baseline="m") -> Comparison:
    return Comparison(
        model=model,
        data="d",
        against="m",
        against_data="d",
        baseline=baseline,
        problems=9,
        missing=0,
        only_there=0,
        other_golds=[],
        unjudged=0,
        differs=[],
        pass_at={1: difference(0.0009, 5, 0), 8: difference(0.001, 4, 1)},
        cons_at={1: difference(0.0009, 5, 0), 8: difference(0.5, 2, 2)},
    )


def test_differences_with_their_tests():
    header, *lines = differences([comparison(), comparison(model="o")])
    assert header[:6] == ["model", "data", "baseline", "metric", "problems", "difference [95 %]"]
    assert header[6:] == ["p", "better", "worse"]
    assert [line[:5] for line in lines[:3]] == [
        ["n", "d", "m", "pass@1", "9"],
        ["n", "d", "m", "pass@8", "9"],
        ["n", "d", "m", "cons@8", "9"],  # cons@1 is pass@1
    ]
    assert [line[-3:] for line in lines[:3]] == [
        ["<0.001", "5", "0"],
        ["0.001", "4", "1"],
        ["0.500", "2", "2"],
    ]
    assert [line[0] for line in lines] == ["n"] * 3 + ["o"] * 3


def test_markdown_has_one_table_of_each_kind_and_the_names_of_others():
    report = report_of(entry(), entry(model="a|b"))
    table, note = as_markdown(report).split("\n\n")
    assert len(table.splitlines()) == 2 + 2 * 3
    assert r"| a\|b | d | 1 |" in table
    assert note == "Names: pass@1 over n responses is avg@n elsewhere, and cons@k is maj@k."
    compared = [comparison(baseline="x (y)")]
    report = replace(report, paired=[comparison()], compared=compared)
    _, compared, note = as_markdown(report).split("\n\n")
    baselines = [line.split(" | ")[2] for line in compared.splitlines()[2:]]
    assert baselines == ["m"] * 3 + ["x (y)"] * 3
    assert "p is not corrected for several comparisons" in note


def test_latex_prints_any_name_and_sets_intervals_in_small_letters():
    names = r"a_b & 5% #1 $x$ {y} ~z ^2 \n <|end|> [q] -0.5"
    report = report_of(
        entry(model=names),
        entry(model="[0]", pass_at={1: estimate(0.05), 2: None}),
        command="rlvr eval\n\\input{x}",
    )
    lines = as_latex(report).splitlines()
    comment, note, _, begin, top, group, rule, head, mid, first, second, *_ = lines
    assert comment == r"% rlvr eval \input{x}"  # a line break would end the comment
    assert note.startswith("% Names: ")
    assert (begin, top, mid) == (r"\begin{tabular}{lrr}", r"\toprule", r"\midrule")
    assert group == r" & \multicolumn{2}{c}{d, 9 problems} \\"
    assert rule == r"\cmidrule(lr){2-3}"
    assert head == r"model & pass@1 [95 \%] & cons@2 [95 \%] \\"
    assert first.startswith(
        r"a\_b \& 5\% \#1 \$x\$ \{y\} \textasciitilde{}z \textasciicircum{}2 \textbackslash{}n "
        r"\textless{}\textbar{}end\textbar{}\textgreater{} [q] $-$0.5 & 0.500 "
    )
    assert second == (  # `\\` would take a `[` after it for its option
        r"{}[0] & 0.050 {\small [$-$0.050, 0.150]} & 0.500 {\small [0.400, 0.600]} \\"
    )
    assert as_latex(report).count(r"\begin{tabular}") == 1
    assert as_latex(report).endswith("\\bottomrule\n\\end{tabular}")
    compared = as_latex(replace(report, paired=[comparison()])).partition(r"{llllrrrrr}")[2]
    assert (
        r"n & d & m & pass@1 & 9 & 0.250 {\small [0.150, 0.350]} & \textless{}0.001 & 5 & 0"
        in compared
    )
    assert "pass@8" not in compared  # which the table of results has not
    eight = entry(pass_at={1: estimate(0.5), 8: estimate(0.5)}, cons_at={8: estimate(0.5)})
    asked = as_latex(report_of(eight, paired=[comparison()], ks=(1, 8)))
    assert "pass@8 & 9 " in asked
    assert "cons@8 & 9 " in asked


def test_latex_has_a_row_for_each_model():
    report = report_of(result("a", 0.5), result("b", 0.25, 8), result("b", 0.75, data="e"))
    lines = as_latex(report).splitlines()
    assert (
        lines[5] == r" & \multicolumn{1}{c}{d, 9 problems} & \multicolumn{1}{c}{e, 9 problems} \\"
    )
    assert lines[6] == r"\cmidrule(lr){2-2} \cmidrule(lr){3-3}"
    assert lines[9] == r"a & 0.500 {\small [0.400, 0.600]} & - \\"
    assert lines[10].startswith(r"b & 0.250 {\small [0.150, 0.350]} of 8 & 0.750 ")
    apart = as_latex(report_of(result("a", 0.5, data="f.jsonl"), result("b", 0.25, data="g")))
    assert "model & data & pass@1" in apart  # a file each: they share the column
    assert r"b & g & 0.250 " in apart
    assert "& 1 &" not in as_latex(report_of(entry(version=1)))


def paired_with(model, baseline, value, p, p_holm=None, data="d") -> Comparison:
    one = PairedDifference(value, (value - 0.1, value + 0.1), p, 5, 1, problems=9, p_holm=p_holm)
    empty = replace(comparison(model, baseline), data=data, against_data=data, against=baseline)
    return replace(empty, pass_at={1: one}, cons_at={})


def bold(*entries, paired=()) -> list[str]:
    text = as_latex(report_of(*entries, paired=paired))
    return [part.partition("}")[0] for part in text.split(r"\textbf{")[1:]]


def result(model, value, problems=9, data="d") -> Entry:
    one = {1: estimate(value, problems)}
    return entry(model, data, pass_at=one, cons_at={1: None})


def test_latex_emboldens_the_best_only_beyond_the_noise():
    three = (result("a", 0.5), result("b", 0.625), result("c", 0.25))
    better = [paired_with("b", "a", 0.125, 0.04), paired_with("c", "b", -0.375, 0.001)]
    assert bold(*three, paired=better) == ["0.625"]
    assert bold(*three, paired=better[:1]) == []  # c is not compared with b
    assert bold(*three) == []
    assert bold(*three, paired=[paired_with("b", "a", 0.125, 0.05), better[1]]) == []
    assert bold(*three, paired=[paired_with("b", "a", 0.125, 0.04, 0.08), better[1]]) == []
    assert bold(*three, paired=[paired_with("b", "a", 0.125, 0.01, 0.03), better[1]]) == ["0.625"]
    assert bold(*three, paired=[paired_with("a", "b", -0.125, 0.04), better[1]]) == ["0.625"]
    assert bold(three[0]) == []  # the best of one
    other_set = [paired_with("b", "a", 0.125, 0.04, data="e"), better[1]]
    assert bold(*three, paired=other_set) == []


def test_csv_has_a_row_for_each_figure():
    shares = {"format_share": None, "cut_off_share": 0.0, "response_length": 5.0}
    part = figures({1: estimate(0.25, 4)}, {1: None}, **shares)
    unbroken = entry(any_form=estimate(0.75), by={"level": {"3": part}})
    report = report_of(unbroken, paired=[comparison()])
    header, *lines = as_csv(report).splitlines()
    names = "model,data,metric,k,level_field,level,value,low,high,n,baseline,p,better,worse,p_holm"
    assert header == names
    assert lines == [
        "m,d,pass@k,1,,,0.5,0.4,0.6,9,,,,,",
        "m,d,pass@k,2,,,0.625,0.525,0.725,9,,,,,",
        "m,d,pass@k,4,,,0.75,0.65,0.85,8,,,,,",
        "m,d,cons@k,1,,,0.5,0.4,0.6,9,,,,,",
        "m,d,cons@k,2,,,0.5,0.4,0.6,9,,,,,",
        "m,d,pass@k in any form,1,,,0.75,0.65,0.85,9,,,,,",
        "m,d,format_share,,,,1.0,,,,,,,,",
        "m,d,cut_off_share,,,,0.125,,,,,,,,",
        "m,d,response_length,,,,12.34,,,,,,,,",
        "m,d,pass@k,1,level,3,0.25,0.15,0.35,4,,,,,",
        "m,d,cut_off_share,,level,3,0.0,,,,,,,,",
        "m,d,response_length,,level,3,5.0,,,,,,,,",
        "n,d,difference pass@k,1,,,0.25,0.15,0.35,9,m,0.0009,5,0,",
        "n,d,difference pass@k,8,,,0.25,0.15,0.35,9,m,0.001,4,1,",
        "n,d,difference cons@k,1,,,0.25,0.15,0.35,9,m,0.0009,5,0,",
        "n,d,difference cons@k,8,,,0.25,0.15,0.35,9,m,0.5,2,2,",
    ]
    rows = list(csv.DictReader(as_csv(report).splitlines()))
    assert len(set(rows[0])) == len(rows[0]) == 15


def test_the_formats_are_those_of_the_option():
    assert list(FORMATS) == ["md", "latex", "csv", "json"]


RUN = ["=1+1", "=HYPERLINK(1)", "+1+1", "-2+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1"]
RUN += ["\n=1", "＝1+1", "＠SUM(1)", "-a", "+", "=", "-1-1", "+0.5 [+0.4, =1]", "-1e5-"]
FIGURES = ["-0.5", "+1", "-1e-05", "+12.5%", "-0.250 [-0.350, -0.150]", "-3,141.5"]
FIGURES += ["+0.433 ±0.010 [+0.27, +0.61]", "m", "a=b", "x@y", "1-2", ""]


@pytest.mark.parametrize("text", RUN, ids=repr)
def test_a_spreadsheet_runs_no_text(text):
    ((cell, number),) = csv.reader(io.StringIO(csv_text([[text, -0.5]]), newline=""))
    assert (cell, number) == (f"'{text}".replace("\r", "\n"), "-0.5")


@pytest.mark.parametrize("text", FIGURES, ids=repr)
def test_a_figure_or_a_plain_text_stays(text):
    assert list(csv.reader(io.StringIO(csv_text([[text]]), newline=""))) == [[text]]


def test_every_text_of_a_report_is_neutral_in_csv():
    evil = entry(model="=A", data="@B", by={"-C": {"+D": figures({1: estimate(0.5)}, {1: None})}})
    lines = list(csv.reader(as_csv(report_of(evil)).splitlines()))
    assert not {cell for line in lines for cell in line if cell[:1] in "=+-@" and cell}
    assert {"'=A", "'@B", "'-C", "'+D"} <= {cell for line in lines for cell in line}


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("<script>alert(1)</script>", r"\<script\>alert(1)\</script\>"),
        ("![y](http://a.b/c)", r"!\[y\](http://a.b/c)"),
        ("[0](javascript:1)", r"[0\](javascript:1)"),
        ("<http://a.b>", r"\<http://a.b\>"),
        ("`a`", r"\`a\`"),
        (r"\<b>", r"\\\<b\>"),
        ("[a][b]", r"\[a\]\[b]"),
        ("a|b\nc", r"a\|b c"),
        ("-0.250 [-0.350, -0.150]", "-0.250 [-0.350, -0.150]"),
        ("pass@k [95 %]", "pass@k [95 %]"),
        ("Qwen/Qwen2.5-0.5B_x*", "Qwen/Qwen2.5-0.5B_x*"),
    ],
)
def test_a_viewer_of_markdown_runs_and_fetches_nothing(text, escaped):
    row = as_markdown(report_of(entry(model=text))).splitlines()[2]
    assert row.startswith(f"| {escaped} | d |")
