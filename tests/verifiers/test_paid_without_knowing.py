"""Who does not know the answer is not paid: the benchmark of that name and its problems."""

import importlib.util
import math
from pathlib import Path
from typing import get_args

import pytest
from verifier_case_files import SHARED_DATA

from verifiers import Format

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "paid_without_knowing.py"
spec = importlib.util.spec_from_file_location("paid_without_knowing", SCRIPT)
assert spec is not None
assert spec.loader is not None
benchmark = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)

pytestmark = pytest.mark.skipif(
    not (SHARED_DATA / "math500.jsonl").exists(),
    reason="GSM8K and MATH-500 are not at ../shared/data beside this checkout",
)


@pytest.mark.slow
@pytest.mark.parametrize("format", get_args(Format))
def test_no_blind_answer_is_paid_more_often_than_the_best_constant(format):
    tasks = benchmark.problems(SHARED_DATA, 900)
    assert benchmark.too_often(benchmark.paid(tasks, format), len(tasks)) == {}


@pytest.mark.parametrize("format", get_args(Format))
def test_no_blind_answer_is_paid_on_a_few_problems_beyond_luck(format):
    times_paid = benchmark.paid(benchmark.problems(SHARED_DATA, 70), format)
    best = max(times_paid[f"constant {answer}"] for answer in benchmark.CONSTANTS)
    # Two counts of equal chance differ by three times sqrt(2 n) once in 700.
    most = best + 3 * math.sqrt(2 * best)
    assert {name: times for name, times in times_paid.items() if times > most} == {}


@pytest.mark.parametrize("format", ["think_answer", "boxed"])
def test_no_last_step_of_gsm8k_is_paid_undone(format):
    assert benchmark.undone_paid(SHARED_DATA, 200, format) == []
