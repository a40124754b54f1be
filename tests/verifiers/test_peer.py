"""Another library as the judge: its verdicts in our words, and nothing of it in this process."""

import subprocess
import sys
from pathlib import Path

import pytest

from verifiers import Attempt, Verdict, open_judge
from verifiers.peer import PeerVerifier

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def peer():
    with open_judge("math-verify") as verifier:
        yield verifier


@pytest.mark.parametrize(
    ("response", "gold", "verdict", "extracted"),
    [
        (r"So \boxed{\frac{1}{2}}.", "0.5", Verdict.CORRECT, r"\frac{1}{2}"),
        (r"So \boxed{\frac{1}{2}}.", r"\frac{1}{3}", Verdict.WRONG, r"\frac{1}{2}"),
        ("<think>$5$</think>The answer is $6$.", "6", Verdict.CORRECT, "6"),
        ("<think>The answer is $5$.</think>I cannot say.", "5", Verdict.NO_ANSWER, None),
        ("The answer is $5$.", "", Verdict.UNPARSEABLE_GOLD, None),
        ("The answer is $0.3333333$.", r"\frac13", Verdict.CORRECT, "0.3333333"),
        ("<think>$8$</think><answer>7</answer>", "7", Verdict.CORRECT, "7"),
        ("<answer>x + 1</answer>", "1 + x", Verdict.CORRECT, "x + 1"),
        (r"<answer>It is \boxed{7}.</answer>", "7", Verdict.CORRECT, "7"),
        ("The answer is <answer>7", "7", Verdict.NO_ANSWER, None),
    ],
)
def test_its_verdicts_are_in_our_words(peer, response, gold, verdict, extracted):
    verification = peer.verify(Attempt(response, gold))
    assert (verification.verdict, verification.extracted, verification.format) == (
        verdict,
        extracted,
        "math-verify",
    )


def test_a_response_cut_off_before_its_answer_is_truncated(peer):
    assert peer.verify(Attempt("Let us", "5", truncated=True)).verdict is Verdict.TRUNCATED


def test_its_equality_makes_the_clusters(peer):
    assert peer.cluster(["0.5", "x+1", r"\frac12", "1+x"]) == [0, 1, 0, 1]
    assert (peer.check_gold("3"), peer.check_gold(" ")) == (True, False)


def test_a_hang_costs_one_row_and_no_more():
    tower = "$9^{9^{9^{9^{9}}}}$"
    with PeerVerifier("math-verify", workers=1, timeout=2) as peer:
        attempts = [Attempt("$4$", "4"), Attempt(tower, "5"), Attempt("$6$", "6")]
        verdicts = [verification.verdict for verification in peer.verify_many(attempts)]
    assert verdicts == [Verdict.CORRECT, Verdict.TIMEOUT, Verdict.CORRECT]


def test_the_library_is_imported_by_the_worker_only():
    script = (
        "import sys\n"
        "from verifiers import Attempt, open_judge\n"
        "with open_judge('math-verify') as judge:\n"
        "    print(judge.verify(Attempt('$2$', '2')).verdict)\n"
        "print({'sympy', 'math_verify', 'torch'} & set(sys.modules))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True
    )
    assert result.stdout.split() == ["correct", "set()"], result.stderr


def test_our_own_rules_are_a_judge_too():
    with open_judge("rlvr", format="boxed") as verifier:
        assert verifier.verify(Attempt("The answer is 5.", "5")).verdict is Verdict.NO_ANSWER
    with pytest.raises(KeyError):
        open_judge("prime")
