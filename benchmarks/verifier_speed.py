"""Time `verifiers` and math-verify: the same rows, alternating, in one run.

    python benchmarks/verifier_speed.py [--data DIR] [--rows N] [--passes N] [--cores N]

The rows are the shared development cases: real responses, and the harder reviewed cases.
Each row is timed alone in processor time, first by one verifier and then by the other. The first to
go alternates. What our worker processes spend counts in the rows a second. Collecting garbage,
which falls on either by chance, does not.
A pass starts with a new `Verifier`, so that nothing is cached. Of several passes a row's median
counts. With `--cores` above 1, the real responses are also split over that many
processes of each verifier, one verifier at a time, to measure rows a second.
"""

import argparse
import gc
import json
import logging
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from math_verify import parse
from math_verify import verify as math_verify_equal

from verifiers import Attempt, Verifier

DEFAULT_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = {"real responses": "verifier_real_dev.jsonl", "reviewed cases": "verifier_dev.jsonl"}
Judge = Callable[[str, str], bool]


def math_verify(response: str, gold: str) -> bool:
    """Judge with math-verify: gold in dollars, as its documentation asks, its own timers off."""
    wrapped = gold if "$" in gold or "####" in gold else f"${gold}$"
    left = parse(wrapped, parsing_timeout=None)
    return bool(
        math_verify_equal(left, parse(response, parsing_timeout=None), timeout_seconds=None)
    )


def judge_of(verifier: Verifier) -> Judge:
    def ours(response: str, gold: str) -> bool:
        return verifier.verify(Attempt(response, gold)).verdict == "correct"

    return ours


def worker_seconds() -> float:
    """Return the processor seconds of child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def new_judges() -> dict[str, Judge]:
    return {"verifiers": judge_of(Verifier()), "math-verify": math_verify}


def judge_timed(judge: Judge, row: dict) -> tuple[float, bool]:
    gc.disable()  # what one leaves behind is not to be collected in the other's time
    started = time.process_time()
    verdict = judge(row["response"], row["answer"])
    seconds = time.process_time() - started
    gc.enable()
    return seconds, verdict


def side_by_side(rows: list[dict], passes: int) -> dict[str, dict[str, float]]:
    """Return the median and 99th percentile in ms a row, rows a second, and the share right."""
    tries: dict[str, list[list[float]]] = {name: [[] for _ in rows] for name in new_judges()}
    right = dict.fromkeys(tries, 0)
    before = worker_seconds()
    for turn in range(passes):
        with Verifier() as verifier:
            judges = [("verifiers", judge_of(verifier)), ("math-verify", math_verify)]
            for index, row in enumerate(rows):
                for name, judge in judges if index % 2 else reversed(judges):
                    seconds, verdict = judge_timed(judge, row)
                    tries[name][index].append(seconds)
                    if turn == 0 and verdict == row["expected"]:
                        right[name] += 1
    beside = {"verifiers": (worker_seconds() - before) / passes, "math-verify": 0.0}
    return {
        name: summary(
            [statistics.median(times) for times in row_times], right[name], beside=beside[name]
        )
        for name, row_times in tries.items()
    }


def summary(times: list[float], right: int, *, beside: float) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "median ms": 1000 * statistics.median(ordered),
        "p99 ms": 1000 * ordered[int(len(ordered) * 0.99)],
        "max ms": 1000 * ordered[-1],
        "rows/s": len(ordered) / (sum(ordered) + beside),
        "right": right / len(ordered),
    }


def judge_all(name: str, rows: list[dict]) -> int:
    judge = new_judges()[name]
    return sum(judge(row["response"], row["answer"]) for row in rows)


def throughput(rows: list[dict], cores: int) -> dict[str, float]:
    """Return rows a second over several processes, which are warm before the clock starts."""
    rates = {}
    for name in new_judges():
        with ProcessPoolExecutor(cores) as pool:
            list(pool.map(judge_all, [name] * cores, [rows[:5]] * cores))
            parts = [rows[start::cores] for start in range(cores)]
            started = time.perf_counter()
            list(pool.map(judge_all, [name] * cores, parts))
            rates[name] = len(rows) / (time.perf_counter() - started)
    return rates


def show(title: str, table: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}")
    columns = list(next(iter(table.values())))
    print(f"{'':14}" + "".join(f"{column:>12}" for column in columns))
    for name, cells in table.items():
        print(f"{name:14}" + "".join(f"{cells[column]:12.3f}" for column in columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--rows", type=int, default=None, help="first rows of each file only")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--cores", type=int, default=1)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for title, name in FILES.items():
        with (args.data / name).open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines][: args.rows]
        for name_of_judge in new_judges():
            judge_all(name_of_judge, rows[:3])
        show(f"{title}: {len(rows)} rows", side_by_side(rows, args.passes))
        if args.cores > 1 and title == "real responses":
            rates = throughput(rows, args.cores)
            print(f"\nrows a second on {args.cores} cores: {rates}")


if __name__ == "__main__":
    main()
