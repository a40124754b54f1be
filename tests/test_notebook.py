"""The notebook in examples/: run as a reader runs it, beside the outputs that the hub shows."""

import re
from pathlib import Path

import pytest

import rlvr_cli

NOTEBOOK = Path(rlvr_cli.__file__).parents[1] / "examples" / "first_run.ipynb"
nbformat = pytest.importorskip("nbformat", reason="no notebooks: pip install nbclient ipykernel")
nbclient = pytest.importorskip("nbclient", reason="no nbclient: pip install nbclient ipykernel")
pytest.importorskip("ipykernel", reason="no ipykernel: pip install ipykernel")


def outputs(notebook) -> list[dict[str, str]]:
    """The texts that each cell of code shows, by their kind."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = []
    for cell in cells:
        texts = {}
        for output in cell.outputs:
            texts.update(output.get("data", {output.get("name"): output.get("text")}))
        shown.append(texts)
    return shown


def cells_of(table: str) -> list[list[str]]:
    """The texts of the body of a table, by row."""
    (body,) = re.findall(r"<tbody>(.*?)</tbody>", table, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]


def check_outputs(notebook) -> None:
    """Check the curves, the completions, the figures and the samples that a reader sees."""
    (_, example, trained, drawn, completions, held_out, compared, sampled) = outputs(notebook)
    assert example == {"text/plain": "0.5"}
    assert trained == {"text/plain": "(15, 1920)"}  # 15 steps of 16 problems x 8 samples
    lines = re.findall(r'<polyline points="(.*?)"', drawn["image/svg+xml"])
    assert [len(line.split()) for line in lines] == [15, 15, 15]
    heights = [float(point.split(",")[1]) for point in lines[2].split()]
    assert sum(heights[-5:]) < sum(heights[:5])  # up is 0: more operations are written down
    rows = cells_of(completions["text/html"])
    assert [row[1] for row in rows] == ["1"] * 5 + ["15"] * 5
    for _, _, problem, response, verdict, reward in rows:
        requested = problem.count("(")
        share = min(1.0, response.count("=") / requested)
        assert float(reward) == pytest.approx((1 if verdict == "correct" else -1) + share / 2)
        assert response.startswith("&lt;think&gt;")
    for name, row in zip(("before", "after"), cells_of(held_out["text/html"]), strict=True):
        low, high = map(float, row[2].strip("[]").split(", "))
        assert row[0] == name
        assert row[3:] == ["50", "4"]
        assert low < float(row[1]) < high
    before, after, difference = (row[1:] for row in cells_of(compared["text/html"]))
    assert float(difference[0]) == pytest.approx(float(after[0]) - float(before[0]), abs=1e-5)
    assert {before[2], after[2], difference[2]} == {"87"}
    assert len(sampled["stdout"].splitlines()) == 3


def test_the_committed_outputs_are_those_of_its_cells():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    check_outputs(notebook)
    assert not re.search(r"/(home|root|tmp|work|usr)\b", NOTEBOOK.read_text())


@pytest.mark.slow
def test_every_cell_runs_and_shows_its_figures(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=480, resources=place).execute()
    check_outputs(notebook)
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "summary.json").is_file()
