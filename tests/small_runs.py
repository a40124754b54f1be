"""A run directory and a result made by hand, as small as they can be."""

import json
from pathlib import Path

from rlvr_cli.config import as_yaml, resolve, set_layer
from rlvr_cli.core.step_figures import StepFigures

MEASURED = ("seconds_", "tokens_per_second_", "goodput", "mfu", "memory_")
"""How the names of the metrics begin that depend on the machine and the moment. All others are the
same in every repetition of a run on a CPU, and after a resume."""
NASTY = "<script>alert(1)</script></script><!--\x1b[2J\u202eevil\x07 <img src=x onerror=alert(2)>"


def repeatable(metrics: dict) -> dict:
    """The metrics of a step without the measured ones."""
    return {name: value for name, value in metrics.items() if not name.startswith(MEASURED)}


def made_row(problem: str, sample: int, verdict: str, response: str = "", **more) -> dict:
    return {
        "id": problem,
        "sample": sample,
        "problem": f"What is {problem}?",
        "response": response or f"<think>hm</think><answer>{sample}</answer>",
        "finish_reason": "stop",
        "n_tokens": 10 + sample,
        "answer": "7",
        "extracted": str(sample),
        "verdict": verdict,
        "format_ok": True,
        "reward": {"correct": 1.0, "timeout": None, "unparseable_gold": None}.get(verdict, -1.0),
        "verifier": "think_answer",
        "level": len(problem),
        **more,
    }


def made_metrics(step: int, **more) -> dict:
    row = {
        "step": step,
        "no_update": None,
        "mixed_share": 0.5,
        "verdicts": {"correct": 1, "wrong": 7},
    }
    row |= {"reward": -0.75 + step / 10, "pass@1": step / 10, "response_length": 10.0 + step}
    return {
        **row,
        "entropy": 0.5,
        "clip_fraction": 0.01,
        "approx_kl": 0.002,
        "groups_trained": 1,
        **more,
    }


def made_figures(row: dict) -> StepFigures:
    """The figures of a step whose line has these metrics beside those that every line has."""
    bare = {"step": 1, "no_update": None, "mixed_share": None, "verdicts": {}}
    return StepFigures.from_row(bare | row)


def write_rows(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def made_tokens(sample: int, *text: str, **more) -> dict:
    """Tokens that got likelier by as many tenths as stand before them; the first was clipped."""
    figures = {
        "logprob": [-1.0 - n for n in range(len(text))],
        "ratio": [1 + n / 10 for n in range(len(text))],
        "advantage": [-0.5 if sample else 1.5] * len(text),
        "entropy": [0.5] * len(text),
        "clipped": [0.0 if n else 1.0 for n in range(len(text))],
    }
    return {"group": 1, "sample": sample, "text": list(text), "figures": figures | more}


def made_run(directory: Path, *settings: str, steps: int = 2, held_out: str = "correct") -> Path:
    """A run of steps with two groups of four: one mixed (1 right; the first two with tokens),
    one all wrong."""
    directory.mkdir()
    config = resolve(set_layer(["data.source=problems.yaml", f"steps={steps}", *settings]))
    (directory / "config.yaml").write_text(as_yaml(config), encoding="utf-8")
    write_rows(directory / "metrics.jsonl", [made_metrics(n) for n in range(1, steps + 1)])
    for step in range(1, steps + 1):
        mixed = [made_row("aa", n, "wrong" if n else "correct") for n in range(4)]
        same = [made_row("b", n, "wrong", response=NASTY) for n in range(4)]
        write_rows(directory / "rollouts" / f"step-{step:06d}.jsonl", mixed + same)
        tokens = [made_tokens(0, "7", "", "é", NASTY), made_tokens(1, "1")]
        path = directory / "rollouts" / f"tokens-step-{step:06d}.json"
        path.write_text(json.dumps(tokens), encoding="utf-8")
    for when, verdict in (("before", "wrong"), ("after", held_out)):
        rows = [made_row(f"h{n}", 0, verdict) for n in range(6)]
        write_rows(directory / "rollouts" / f"held-out-{when}.jsonl", rows)
    (directory / "summary.json").write_text("{}")
    return directory


def made_result(directory: Path) -> Path:
    """A result of three problems with 2, 0 and 1 of 2 right."""
    rights = {"aa": 2, "b": 0, "ccc": 1}
    rows = [
        made_row(name, n, "correct" if n < right else "wrong")
        for name, right in rights.items()
        for n in range(2)
    ]
    write_rows(directory / "responses" / "set--model.jsonl", rows)
    entry = {"model": "model", "data": "set", "fingerprint": {}}
    (directory / "report.json").write_text(json.dumps({"results": [entry]}))
    return directory
