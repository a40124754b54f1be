"""Read what other tools log of their evaluations as response rows: the samples of lm-eval, the
details of lighteval, the JSON logs of inspect."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rlvr_cli.data.fields import ALIASES
from rlvr_cli.data.files import BadRowError, SourceRow

Row = dict[str, Any]


def response_rows(rows: Iterable[SourceRow]) -> Iterator[SourceRow]:
    """Yield each row as it is, or as the response rows that a log's row stands for.

    lm-eval writes a row for every filter of a task: those of the first are read.
    """
    first_filter: Any = None
    for where, number, row in rows:
        keys = row.keys() if isinstance(row, dict) else ()
        tool = next((tool for tool, (has, _) in _TOOLS.items() if has <= set(keys)), None)
        if tool is None:
            yield where, number, row
            continue
        if tool == "lm-eval":
            first_filter = first_filter or row.get("filter")
            if row.get("filter") != first_filter:
                continue
        try:
            for found in _TOOLS[tool][1](row):
                yield where, number, found
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            what = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
            wrong = f"looks like a log of {tool}, of another layout ({what})"
            yield where, number, BadRowError(f"{wrong}: give problem, answer, response")


def _lm_eval(row: Row) -> Iterator[Row]:
    if len(row["resps"]) != 1:
        raise ValueError("choices by likelihood, not generated texts")
    about = {"id": row["doc_id"], "answer": _only(row["target"]), "responses": row["resps"][0]}
    yield {**_fields(row["doc"]), **about}


def _only(golds: Any) -> Any:
    """Return the gold answer. Raises ValueError where any of several is accepted."""
    listed = golds if isinstance(golds, list) else [golds]
    if len(listed) != 1:
        raise ValueError(f"{len(listed)} gold answers, of which one is needed")
    return listed[0]


def _fields(doc: Row) -> Row:
    """Return the fields of a problem, without what would be taken for a response."""
    return {key: value for key, value in doc.items() if key not in ALIASES["response"]}


def _lighteval(row: Row) -> Iterator[Row]:
    doc = row["doc"]
    gold = doc["choices"][_only(doc["gold_index"])]
    responses = row["model_response"]["text"]
    yield {"id": doc.get("id"), "problem": doc["query"], "answer": gold, "responses": responses}


def _inspect(log: Row) -> Iterator[Row]:
    about = {"model": log["eval"]["model"], "problem_set": log["eval"]["task"]}
    for sample in log["samples"]:
        asked, target, output = sample["input"], sample["target"], sample["output"]
        if isinstance(asked, list):
            asked = [turn["content"] for turn in asked if turn["role"] == "user"][-1]
        ends = [choice["stop_reason"] for choice in output["choices"]]
        yield {
            **_fields(sample.get("metadata") or {}),
            **about,
            "id": sample["id"],
            "problem": asked,
            "answer": _only(target),
            "response": output["completion"],
            "finish_reason": ends[0] if ends else None,
            "n_tokens": (output.get("usage") or {}).get("output_tokens"),
        }


_TOOLS: dict[str, tuple[set[str], Callable[[Row], Iterator[Row]]]] = {
    "lm-eval": ({"doc", "doc_id", "resps", "target"}, _lm_eval),
    "lighteval": ({"doc", "model_response"}, _lighteval),
    "inspect": ({"eval", "samples", "version"}, _inspect),
}
"""The keys by which a row of each tool is known, and how it is read."""
