"""The page of runs and results: bounded, inert, and working in a real browser."""

import json
import re

import pytest
from conftest import invoke, opened, refused
from small_runs import (
    NASTY,
    made_metrics,
    made_result,
    made_row,
    made_run,
    made_tokens,
    write_rows,
)

from rlvr_cli.show import page as module
from rlvr_cli.show.page import page, page_data
from rlvr_cli.show.source import open_source

NOT_PASSED = {**made_tokens(1, "1"), "figures": None}
"""The tokens of a response without a part in the gradient."""


def without_names(value: object) -> str:
    """A value as JSON without the names of its fields, which the bound does not count."""
    return re.sub(r'"[a-z_]+":', "", json.dumps(value, separators=(",", ":")))


def test_the_figures_are_those_of_the_files(tmp_path):
    data = page_data([open_source(made_run(tmp_path / "run"))])
    (run,) = data["runs"]
    assert run["metrics"]["step"] == [0, 1, 2]  # 0 is what was measured before training
    assert run["metrics"]["reward"] == [None, -0.65, -0.55]
    before, _, after = run["metrics"]["held_out_pass@1"]
    assert (before, after) == (0.0, 1.0)
    shares = run["fates"]["shares"]  # 10 + 11 + 12 + 13 tokens in each group
    assert (shares["trained"], shares["dropped, all wrong"]) == ([0.5, 0.5], [0.5, 0.5])
    names = ("group", "sample", "verdict", "n_tokens", "reward", "advantage")
    assert [[row[name] for name in names] for row in data["rows"][:2]] == [
        [0, 0, "correct", 10, 1.0, 1.5],
        [0, 1, "wrong", 11, -1.0, -0.5],
    ]
    figures = {"logprob": [-1.0], "ratio": [1.0], "advantage": [-0.5], "entropy": [0.5]}
    assert data["rows"][1]["tokens"] == {"text": ["1"], **figures, "clipped": [1.0]}
    assert ["tokens" in row for row in data["rows"][:8]] == [True, True] + [False] * 6
    group = {"run": 0, "step": 1, "number": 2, "problem": 1, "fate": "dropped, all wrong"}
    assert data["groups"][1] == group
    assert data["note"] == "All 16 responses."


def test_the_figures_of_a_response_that_was_not_passed_are_null(tmp_path):
    run = made_run(tmp_path / "run")
    (run / "rollouts" / "tokens-step-000001.json").write_text(json.dumps([NOT_PASSED]))
    figures = page_data([open_source(run)])["rows"][1]["tokens"]
    assert figures.pop("text") == ["1"]
    assert list(figures.values()) == [None] * 5


def test_what_is_cut_off_trains_unless_it_is_masked_and_is_paid_with_its_penalty(tmp_path):
    for mask, shares in (("soft", (0.5, 0.5, 0.0)), ("mask", (36 / 92, 0.5, 10 / 92))):
        path = made_run(tmp_path / mask, f"algorithm.overlong={mask}", "rollout.max_tokens=12")
        rows = []
        for name, first_verdict in (("aa", "correct"), ("b", "wrong")):
            rows.append(made_row(name, 0, first_verdict, finish_reason="length"))
            rows += [made_row(name, n, "wrong", finish_reason="stop") for n in range(1, 4)]
        write_rows(path / "rollouts" / "step-000001.jsonl", rows)
        data = page_data([open_source(path)])
        actual = data["runs"][0]["fates"]["shares"]
        names = ("trained", "dropped, all wrong", "cut off")
        assert tuple(actual.get(name, [0.0])[0] for name in names) == pytest.approx(shares)
        assert list(actual) == [name for name in names if actual.get(name)]  # no others
        reward = 1 - 0.4 / 2.4 if mask == "soft" else 1.0  # of 10 tokens, 9.6 are free
        assert data["rows"][0]["reward"] == pytest.approx(reward)


def test_a_held_out_set_is_a_curve_with_its_interval(tmp_path):
    run = made_run(tmp_path / "run")
    measured = made_metrics(2)
    measured["held_out_pass@1"] = 0.25
    measured["held_out_pass@1/b"] = 0.5
    measured["held_out_pass@1_low/b"] = 0.4
    write_rows(run / "metrics.jsonl", [made_metrics(1), measured])
    data = page_data([open_source(run)])
    metrics = data["runs"][0]["metrics"]
    curves = list(data["glossary"])
    assert metrics["held_out_pass@1/b"] == [None, None, 0.5]
    assert metrics["held_out_pass@1_low/b"] == [None, None, 0.4]
    assert curves[2:4] == ["held_out_pass@1", "held_out_pass@1/b"]
    assert curves[4:6] == ["held_out_cons@k", "held_out_cons@k/b"]
    assert data["glossary"]["held_out_pass@1/b"].startswith("b pass@1 on problems")
    assert data["limits"]["held_out_cons@k/b"] == (0.0, 1.0)


def test_of_too_many_responses_it_says_what_it_shows(tmp_path, monkeypatch):
    fields = {f"field {n}": n for n in range(99)}
    rows = [made_row(f"p{n}", 0, "wrong", response="&" * 10, **fields) for n in range(200)]
    write_rows(tmp_path / "rows.jsonl", rows)
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    data = page_data([open_source(tmp_path / "rows.jsonl")])
    sampled = [int(item["id"][1:]) for item in data["problems"]]
    assert data["note"].startswith(f"A sample of {len(sampled)} of 200 responses")
    assert 20 < len(sampled) < 60
    assert {b - a for a, b in zip(sorted(sampled), sorted(sampled)[1:], strict=False)} <= set(
        range(1, 9)
    )
    assert all(len(item["fields"]) == 8 for item in data["problems"])
    written = without_names([data[key] for key in ("rows", "problems", "groups")])
    assert len(written) + 5 * written.count("&") < 14_000


def test_groups_with_tokens_come_first_up_to_their_part(tmp_path, monkeypatch):
    run = made_run(tmp_path / "run", steps=40)
    for max_bytes, groups in ((30_000, 9), (200_000, 40)):
        monkeypatch.setattr(module, "MOST_BYTES", max_bytes)
        data = page_data([open_source(run)])
        with_tokens = {row["group"] for row in data["rows"] if "tokens" in row}
        assert groups <= len(with_tokens) <= 1.2 * groups
        assert len(without_names(data["rows"])) < 1.2 * max_bytes


def test_nothing_a_model_wrote_is_markup(tmp_path):
    text = page([open_source(made_run(tmp_path / "<script>x"))])
    assert re.findall(r"<script[^>]*>", text) == [
        '<script type="application/json" id="data">',
        *["<script>"] * 2,
    ]
    assert text.count("</script>") == 3
    assert not {"\x1b", "\u202e", "\x07"} & set(text)
    assert "<title>rlvr: " in text
    assert "http" not in text.partition("<body>")[0].replace("http-equiv", "")
    block = text.partition('id="data">')[2].partition("</script>")[0]
    assert any("<script>alert(1)</script>" in row["response"] for row in json.loads(block)["rows"])


def test_nothing_is_overwritten(tmp_path):
    run = made_run(tmp_path / "run")
    file = tmp_path / "page.html"
    assert invoke("show", run, "--html", file).exit_code == 0
    assert "it exists already" in refused("show", run, "--html", file)
    assert "cannot be written" in refused("show", run, "--html", tmp_path / "no" / "page.html")


@pytest.mark.parametrize(
    "look", [{"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}]
)
def test_in_a_browser_it_draws_filters_sorts_and_runs_nothing_of_a_model(browser, tmp_path, look):
    message = []
    file = tmp_path / "page.html"
    runs = [made_run(tmp_path / "a"), made_run(tmp_path / "b", "optim.lr=0.5", steps=3)]
    for tokens in tmp_path.glob("*/rollouts/tokens-*.json"):
        tokens.write_text(json.dumps([made_tokens(0, "7", "", "é", NASTY), NOT_PASSED]))
    ends = {f"held_out_pass@1{end}/b": value for end, value in (("", 0.5), ("_low", 0.4))}
    measured = [made_metrics(step, **{"held_out_pass@1": 0.25}, **ends) for step in (1, 2)]
    write_rows(runs[0] / "metrics.jsonl", measured)
    file.write_text(page([open_source(run) for run in runs]))
    view = opened(browser, file, message, **look)
    assert "held_out_pass@1/b" in view.inner_text("#charts")
    (title,) = view.query_selector_all("#charts h3 >> text=/^held-out sets$/")
    legend = title.evaluate("one => one.parentElement.querySelector('.u-legend').innerText")
    assert "pass@1 b" in legend
    assert "a 95 % from" in view.inner_text("#charts")
    assert view.locator("canvas").count() == len(view.query_selector_all(".chart")) > 6
    assert "optim.lr" in view.inner_text("#tables")

    def count() -> str:
        return view.inner_text("#count")

    assert count() == "40 of 40 responses here"
    view.select_option("#verdict", "correct")
    assert count() == "5 of 40 responses here"
    view.locator("#step").fill("3")
    assert (view.inner_text("#stepname"), count()) == ("step 3", "1 of 40 responses here")
    view.locator("#step").fill("0")
    view.locator("#runs input").first.uncheck()
    assert count() == "3 of 40 responses here"
    view.select_option("#verdict", "")
    view.select_option("#field", "level: 1")
    view.fill("#search", "ALERT(2)")
    assert count() == "12 of 40 responses here"
    view.select_option("#field", "")
    view.fill("#search", "")
    view.select_option("#order", "highest advantage")
    assert view.locator(".row").first.locator("span").nth(1).inner_text() == "correct"
    view.fill("#search", "evil")
    view.locator(".row").first.click()
    assert view.locator("#detail pre").nth(1).inner_text().startswith("<script>alert(1)</script>")
    view.select_option("#order", "single tokens first")
    view.fill("#search", "")
    view.locator(".row").first.click()
    assert view.locator(".token").count() == 0
    shades = {}
    for color in ("log-probability", "ratio", "advantage", "entropy"):
        view.select_option("#color", color)
        spans = view.locator(".response.on .token")
        assert "".join(spans.all_text_contents()).startswith("7é<script>alert(1)</script>")
        shade = "one => getComputedStyle(one).backgroundColor"
        shades[color] = [spans.nth(place).evaluate(shade) for place in (0, 3)]
        assert view.inner_text("#legend").startswith(f"{color}: ")
    assert shades == {
        "log-probability": ["rgba(224, 138, 30, 0.12)", "rgba(224, 138, 30, 0.48)"],
        "ratio": ["rgba(47, 126, 216, 0)", "rgba(47, 126, 216, 0.6)"],
        "advantage": ["rgba(47, 126, 216, 0.45)"] * 2,
        "entropy": ["rgba(47, 126, 216, 0.15)"] * 2,
    }
    assert view.locator(".response.on .clipped").all_text_contents() == ["7"]
    assert "4 of 10 tokens were kept" in view.inner_text(".response.on pre")
    spans.first.click()
    assert view.inner_text("#legend") == (
        "7: log-probability -1, ratio 1, advantage 1.5, entropy 0.5, clipped"
    )
    null = view.locator(".response:not(.on) .token")
    assert null.all_text_contents() == ["1"]
    assert null.first.evaluate("one => one.style.backgroundColor") == ""
    assert null.first.get_attribute("title").startswith("not passed by the update")
    view.fill("#search", "evil")
    view.locator(".row", has_text="group 2").first.click()
    assert "No single tokens are kept of this group" in view.inner_text("#legend")
    assert view.locator("img, iframe, object, link, #detail script, #list script").count() == 0
    assert view.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert message == []
    view.close()


def test_a_long_list_keeps_only_the_rows_in_sight(browser, tmp_path):
    rows = [made_row(f"p{n}", 0, "wrong", response="x") for n in range(8_000)]
    write_rows(tmp_path / "rows.jsonl", rows)
    message = []
    file = tmp_path / "page.html"
    text = page([open_source(tmp_path / "rows.jsonl")])
    file.write_text(text)
    view = opened(browser, file, message)
    assert view.locator(".row").count() < 100
    view.evaluate("document.getElementById('list').scrollTop = 1e9")
    view.locator(".row", has_text="p7999").wait_for()
    assert view.locator(".row").count() < 100
    assert message == []
    view.close()


def test_the_page_of_a_result(browser, tmp_path):
    message = []
    file = tmp_path / "page.html"
    assert invoke("show", made_result(tmp_path / "result"), "--html", file).exit_code == 0
    view = opened(browser, file, message)
    assert view.inner_text("#count") == "6 of 6 responses here"
    assert not view.is_visible("#color")
    assert message == []
    assert NASTY not in view.content()


def test_a_run_is_named_by_the_last_part_of_its_path_where_that_is_its_own(tmp_path):
    runs = [open_source(made_run(tmp_path / name)) for name in ("a", "b")]
    assert [run["name"] for run in page_data(runs)["runs"]] == ["a", "b"]
    (tmp_path / "deep").mkdir()
    runs[1] = open_source(made_run(tmp_path / "deep" / "a"))
    names = [run["name"] for run in page_data(runs)["runs"]]
    assert names == [str(tmp_path / "a"), str(tmp_path / "deep" / "a")]
