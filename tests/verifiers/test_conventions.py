"""The table of conventions in verifiers/README.md, row by row."""

import pytest

from verifiers.equality.compare import compare

# Each gold with answers that equal it, and with answers that do not.
ROWS = [
    ("1500", ["1,500", "1{,}500", "1.5e3"], ["150", "1500.01"]),
    ("1/3", ["0.3333333333333", r"0.\overline{3}"], ["0.33", "0.333333"]),
    ("720", ["6!", r"2^4 \cdot 45"], ["6! + 1"]),
    ("6000", ["6 x 10^3"], ["6x"]),
    ("21/8", [r"2\frac58", "2 5/8"], [r"2 \cdot \frac58", r"2^1\frac58"]),
    (r"\sqrt8", [r"2\sqrt2"], ["2.8284271247"]),
    (r"\log 20", [r"1 + \log_{10} 2", r"\ln 20"], [r"\ln 2"]),
    ("10", [r"\binom52", "{}_5C_2", "C(5, 2)", "5C2"], [r"\binom54"]),
    (r"\lvert x \rvert", ["abs(x)"], ["floor(x)"]),
    (r"90^\circ", ["90", r"\pi/2"], [r"\pi/3"]),
    ("20", [r"20\%"], [r"30\%"]),
    ("0.35", [r"35\%"], [r"0.35\%"]),
    ("(x+1)^2", ["x^2+2x+1"], ["x^2+2x+2"]),
    (r"\sqrt{x^2}", ["|x|"], ["x"]),
    (r"\frac{dy}{dx} = 2x", ["2x"], [r"\frac{y}{x}"]),
    ("f(x) + 1", ["1 + f(x)"], ["f(y) + 1", "F(x) + 1"]),
    ("x = 5", ["5"], ["y = 5"]),
    (r"\text{cost} = 5", [r"\text{total cost} = 5", "x = 5"], [r"\text{wage} = 5"]),
    ("f(n) = 2n", ["f(m) = 2m", "2n", "y = 2n"], ["f(n) = 2m"]),
    ("x = 3", ["x = 6/2 = 3"], ["x = 6/2 = 4"]),
    ("8", ["m + n = 8", "ab = 8", r"\frac xy = 8"], ["2x = 8", r"\sqrt{ab} = 8"]),
    ("5/4", ["e = 5/4"], [r"\ln x = 5/4"]),
    ("10/3", [r"10/3 \approx 3.33"], ["3.33"]),
    ("x^2 - 1", ["x^2 - 1 = (x-1)(x+1)"], ["x^2 - 1 = 0"]),
    ("2x - y = 1", ["y = 2x - 1", "4x - 2y = 2"], ["y = 2x + 1"]),
    ("x + y < 2", ["-x - y > -2"], [r"x + y \le 2"]),
    ("4", [], ["2x = 8", r"\int_0^2 2x\,dx", r"\max(3, 4)"]),
    ("7.5", ["7,5", "7,50 €"], ["7, 5"]),
    ("2, 3", ["3, 2", r"\{2, 3\}", "2 and 3"], ["2", "2, 3, 4"]),
    ("2, 2, 3", ["3, 2, 2"], ["2, 3"]),
    ("x = 2, y = 3", ["y = 3, x = 2", "(2, 3)"], ["(3, 2)"]),
    (r"1 \pm \sqrt2", [r"1 + \sqrt2, 1 - \sqrt2", r"1 \pm -\sqrt2"], [r"1 + \sqrt2"]),
    (
        "(2, 3)",
        [r"\begin{pmatrix} 2 \\ 3 \end{pmatrix}", r"\langle 2, 3 \rangle"],
        ["(3, 2)", "2, 3"],
    ),
    (
        r"\begin{pmatrix} 2 & 4 \end{pmatrix}",
        [r"2\begin{pmatrix} 1 & 2 \end{pmatrix}", "[[2, 4]]"],
        [r"\begin{pmatrix} 2 \\ 4 \end{pmatrix}"],
    ),
    ("(0, 3)", ["]0; 3[", "0 < x < 3", r"x \in (0, 3)"], ["[0, 3]", r"2x \in (0, 3)"]),
    ("(3, 0)", [], ["x^2 < 0", "(5, 1)"]),
    (r"(0, 1) \cup (1, 2)", [r"(0, 2) \setminus \{1\}"], ["(0, 2)"]),
    ("(-2, 2)", ["x^2 < 4", "|x| < 2"], [r"x^2 \le 4"]),
    (r"\{x \mid x > 1\}", [r"(1, \infty)"], [r"[1, \infty)", r"\{x^2 \mid x > 1\}"]),
    (
        r"x \ne \pm 1",
        [r"x \ne 1 \text{ and } x \ne -1", r"\mathbb{R} \setminus \{1, -1\}"],
        [r"x \ne 1"],
    ),
    (r"\emptyset", ["no solution"], ["0"]),
    (r"\mathbb{R}", ["all real numbers", r"(-\infty, \infty)"], [r"(0, \infty)"]),
    (r"x = k\pi, k \in \mathbb{Z}", [r"k\pi"], [r"2k\pi"]),
    ("2x", ["2x, x > 0", r"2x \text{ for all real } x", r"2x \ (x > 0)"], ["3x, x > 0"]),
    ("2x, x > 0", [r"2x \text{ if } x > 0"], ["2x, x < 0"]),
    ("5 m", ["5", "500 cm", "5 meters"], ["5 km", "5 s"]),
    (
        "36 km/h",
        ["10 m/s", r"10 \frac{\text{m}}{\text{s}}", r"10 \text{ m} \cdot \text{s}^{-1}"],
        ["36 m/s"],
    ),
    ("5 ft 6 in", ["66 inches"], ["5 ft 7 in"]),
    (r"\$18", ["18", "18 dollars", "1800 cents"], ["€18", "18 cents"]),
    ("12 apples", ["12", "12 pears", "12 (apples)", "12 яблок"], ["13 apples"]),
    ("16 km", ["16 км", "16公里"], ["16 м"]),
    ("30000", ["30 thousand", "3万", "30 тысяч"], ["30000 половин"]),
    ("21", ["twenty-one"], ["twenty"]),
    ("2/3", ["two thirds"], ["third"]),
    ("14", ["14th"], ["14rd"]),
    ("204_5", ["204_{five}"], ["54", "204", "204_6"]),
    ("1:2", ["2:4", "1 to 2", "1/2"], ["2:1"]),
    ("21:30", ["9:30 PM", "9:30 p.m."], ["9:30 AM"]),
    (r"3 \pmod 7", ["3"], [r"3 \pmod 8"]),
    ("(B)", ["B", "Option B", "(B) 7", "B (7)"], ["b", "(C)"]),
    ("AD", ["A, D", "A、D", "A D"], ["A"]),
    ("(C) 7", ["C", "7"], ["D", "(C) 8"]),
    ("ellipse", ["Ellipse", "an ellipse"], ["circle"]),
    (r"x^2 \le \pi", ["x² ≤ π"], ["x² < π"]),
    ("42", [], ["４２", "4\u200b2"]),
    ("0", [], ["1/0", "0^0"]),
    ("1", [], ["1 + 10^{-600}", r"\tanh 1000"]),
]
EQUAL = [(gold, answer) for gold, equal, _ in ROWS for answer in equal]
UNEQUAL = [(gold, answer) for gold, _, unequal in ROWS for answer in unequal]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(gold: str, answer: str) -> None:
    assert compare(gold, answer).equal


@pytest.mark.parametrize(("gold", "answer"), UNEQUAL)
def test_unequal(gold: str, answer: str) -> None:
    assert not compare(gold, answer).equal
