"""A box that is an operand of what is written around it does not stand alone."""

import pytest

from verifiers.extraction.context.alone import stands_alone
from verifiers.extraction.response.passages import boxes

ALONE = [
    "so \\boxed{7}.",
    "The answer is $\\boxed{7}$.",
    "$x=\\boxed{7}$",
    "\\[\\boxed{7}\\]",
    "\\(\\boxed{7}\\) square feet",
    "- $\\boxed{7}$",
    "- \\boxed{7}",
    "1. \\boxed{7}",
    "**\\boxed{7}**",
    "Answer: **$\\boxed{7}$**",
    "$n \\equiv \\boxed{7} \\pmod{10}$",
    "$\\boxed{7}^\\circ$",
    "$\\boxed{7}\\%$",
    "$\\boxed{7} \\text{ cm}$",
    "$\\boxed{7}\\text{ cm}^2$",
    "答案是\\boxed{7}。",
    "$\\therefore \\boxed{7}$",
    "&= \\boxed{7} \\end{align}",
    "$f(x)=\\boxed{x}$",
    "$(\\boxed{7})$",
    "$\\left(\\boxed{7}\\right)$",
    "x = \\boxed{7}",
    "$$\\boxed{7}$$",
    "$\\text{Answer: }\\boxed{7}$",
    "\\color{red}{\\boxed{7}}",
    "${\\boxed{7}}$",
    "\\boxed{7}!",
    "\\boxed{7} dollars",
    "$\\boxed{7} = 3+4$",
    "$2,\\boxed{3}$",
    "(a) \\boxed{7}",
    "(a) $\\boxed{7}$",
    "The answer — \\boxed{7} — is",
    "\\boxed{7} - that is it",
    "$\\boxed{7}$ (see above)",
    '"x" is $\\boxed{7}$',
    "a \\boxed{7}",
    "$\\boxed{7}$-gon",
    "$\\boxed{7} \\blacksquare$",
    "정답은 $\\boxed{7}$입니다",
    "\\[ \\boxed{7} \\] \\]",
    "So $\\boxed{5\\sqrt{2}}$ cm",
    "\\boxed{3}, and \\boxed{4}",
    "$\\boxed{2}$ and",
    "### \\boxed{4}",
    "> \\boxed{4}",
    "$\\begin{aligned} x &= \\boxed{3}\\end{aligned}$",
    "total cost is $\\$\\boxed{18}$",
    "$\\boxed{18}$ dollars",
    "$x \\in \\boxed{(1,2)}$",
    "$\\boldsymbol{\\boxed{7}}$",
    "$x\\approx\\boxed{7}$",
    "$f(3) = 5 + 2 = \\boxed{7}.$",
    "**Final Answer**\n\\boxed{7}",
    "$\\boxed{7}$<",
]
OPERANDS = [
    "$2\\boxed{7}$",
    "$2\\cdot\\boxed{7}$",
    "$-\\boxed{7}$",
    "-\\boxed{7}",
    "$\\sqrt{\\boxed{7}}$",
    "$\\sqrt[3]{\\boxed{64}}$",
    "$\\frac{\\boxed{3}}{7}$",
    "$\\frac{1}{\\boxed{8}}$",
    "$\\boxed{10}\\pi$",
    "$\\boxed{4}^2$",
    "$\\boxed{4}$^2",
    "$\\boxed{40}/5$",
    "$\\boxed{6}!$",
    "$3^{\\boxed{4}}$",
    "$a_{\\boxed{6}}$",
    "$\\log_2 \\boxed{32}$",
    "$\\binom{\\boxed{7}}{2}$",
    "$5\\times\\boxed{20}$",
    "$1-\\boxed{\\frac14}$",
    "$\\boxed{4}\\cdot 5$",
    "$x > \\boxed{7}$",
    "$x\\ne\\boxed{7}$",
    "$\\boxed{7}00$",
    "1\\boxed{7}",
    "\\boxed{7}.5",
    "$\\boxed{7}x$",
    "$\\boxed{7} + 3$",
    "$\\boxed{7}(3)$",
    "$\\neg\\boxed{7}$",
    "$x+\\boxed{7}$",
    "$\\boxed{7} \\times 10^3$",
    "$\\boxed{204}_5$",
    "2*\\boxed{9}",
    "√\\boxed{9}",
    "$\\boxed{7}^{2}$",
    "$\\boxed{7}\\pm 1$",
    "$\\boxed{7} \\leq x$",
    "$\\sin\\boxed{7}$",
    "sqrt(\\boxed{7})",
    "$\\frac12\\boxed{7}$",
    "$x^{\\boxed{2}}$",
    "\\boxed{7}^2",
    "\\boxed{7}/2",
    "\\boxed{7}+1",
    "$\\boxed{2}\\sqrt{3}$",
    "$2(\\boxed{9})$",
    "$f(\\boxed{9})$",
    "$\\lfloor\\boxed{9}\\rfloor$",
    "$\\left|\\boxed{-3}\\right|$",
    "$|\\boxed{-3}|$",
]


@pytest.mark.parametrize(
    ("text", "alone"), [(text, True) for text in ALONE] + [(text, False) for text in OPERANDS]
)
def test_the_last_box(text: str, alone: bool) -> None:
    start, end, _ = boxes(text)[-1]
    assert stands_alone(text, start, end) is alone


def test_a_box_right_after_a_box_stands_beside_it() -> None:
    text = r"\boxed{1}\boxed{2}"
    first, second = boxes(text)
    assert not stands_alone(text, *second[:2])
    assert stands_alone(text, *second[:2], after_box=first[1])
