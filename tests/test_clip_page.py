"""docs/clip.html in a real browser: it shows the numbers of our functions, and asks for nothing."""

from itertools import product
from pathlib import Path

import pytest
from conftest import opened
from torch import Tensor, float64, ones, tensor

import rlvr_cli
from rlvr_cli.algorithm.group_advantage import group_normalized
from rlvr_cli.algorithm.objective import clipped_surrogate, is_beyond
from rlvr_cli.algorithm.token_advantage import gae

pytestmark = pytest.mark.slow  # a browser takes longer to start than all of the page to be read
FILE = Path(rlvr_cli.__file__).parents[1] / "docs" / "clip.html"
RATIOS = (0.0, 0.5, 0.7, 0.8, 0.81, 1.0, 1.2, 1.21, 1.28, 1.35, 2.0)
ADVANTAGES = (-2.1, -0.3, 0.0, 1.0, 2.5)
BOUNDS = ((0.2, 0.2), (0.2, 0.28), (0.0, 1.0))
READ_CLIP = """() => [...document.querySelectorAll(
    "#surrogate, #gradient, #log-gradient, #case, #cases tr.now td:first-child"
)].map((element) => element.innerText)"""
SHOWN = 5.1e-5
"""The page rounds to four digits."""
CASES = {
    ("inside", True): "1: inside",
    ("inside", False): "2: inside",
    ("below", True): "3: below",
    ("below", False): "4: below",
    ("above", True): "5: above",
    ("above", False): "6: above",
}


def exact(numbers: object) -> Tensor:
    return tensor(numbers, dtype=float64)


def number(text: str) -> float:
    """The number that the page shows, whose minus is that of typesetting."""
    return float(text.replace("\N{MINUS SIGN}", "-"))


def column(view, table: str, place: int) -> list[float]:
    cells = view.locator(f"#{table} tbody td:nth-child({place})").all_inner_texts()
    return [number(text) for text in cells]


def fill(view, **texts: object) -> None:
    for name, text in texts.items():
        view.locator(f"#{name.replace('_', '-')}").fill(str(text))


@pytest.fixture
def view(browser):
    message: list[str] = []
    actual = opened(browser, FILE, message)
    yield actual
    actual.close()
    assert not message  # no request, no error, no dialog


def test_the_sliders_show_the_surrogate_its_gradient_and_the_case(view):
    for (low, high), advantage in product(BOUNDS, ADVANTAGES):
        fill(view, low=low, high=high, advantage=advantage)
        for value in RATIOS:
            fill(view, ratio=value)
            ratio = exact(value).requires_grad_()
            surrogate = clipped_surrogate(ratio, exact(advantage), low, high)
            surrogate.backward()
            texts = view.evaluate(READ_CLIP)
            actual = [number(text) for text in texts[:3]]
            gradient = ratio.grad.item()
            expected = [surrogate.item(), gradient, value * gradient]
            assert actual == pytest.approx(expected, abs=SHOWN), (value, advantage, low, high)
            place = "below" if value < 1 - low else "above" if value > 1 + high else "inside"
            assert texts[4:] == ([CASES[place, advantage > 0]] if advantage else [])
            stops = bool(is_beyond(ratio, exact(advantage), 1 - low, 1 + high))
            assert texts[3].endswith("no gradient.") == stops


def test_the_example_of_the_lectures_is_the_first_thing_shown(view):
    names = ("unclipped", "clipped", "surrogate", "gradient")
    assert [number(view.inner_text(f"#{name}")) for name in names] == [-1.47, -1.68, -1.68, 0]
    assert column(view, "group", 3) == [-1.0641, 0.1438, 0.9203]
    assert column(view, "gae", 5) == [0.442, 0.38, 0.2]
    assert column(view, "steps", 3) == [0.1, 0.09, 0.81]
    view.get_by_text("1.35, ε high 0.28").click()
    assert number(view.inner_text("#surrogate")) == 1.28


@pytest.mark.parametrize(
    "rewards",
    [
        [3.8, 5.2, 6.1],
        [2, 10, 3],
        [1, -1, -1, -1, -1, -1, -1, -1],
        [1, 1, 1, 1],
        [0.1] * 3,
        [-5, 5],
    ],
)
def test_a_group_has_the_advantages_of_both_deviations(view, rewards):
    fill(view, rewards=", ".join(map(str, rewards)))
    for place, deviation in ((3, "sample"), (4, "population")):
        expected = group_normalized(exact(rewards), deviation=deviation).tolist()
        assert column(view, "group", place) == pytest.approx(expected, abs=SHOWN)
    assert ("no response gives" in view.inner_text("#group-note")) == (len(set(rewards)) == 1)


@pytest.mark.parametrize(
    ("rewards", "values"),
    [([0, 0, 1], [0.5, 0.6, 0.8]), ([0.5, -1, 0, 2], [0.1, 0.7, -0.4, 1.5]), ([-1], [0.25])],
)
def test_a_response_has_the_advantages_of_gae_and_their_mixture(view, rewards, values):
    fill(view, token_rewards=", ".join(map(str, rewards)), values=" ".join(map(str, values)))
    for gamma, lam in product((0, 0.9, 1), (0, 0.5, 0.95, 1)):
        fill(view, gamma=gamma, **{"lambda": lam})
        mask = ones(1, len(rewards))
        expected = gae(exact([rewards]), exact([values]), exact([0.0]), mask, gamma, lam)[0]
        assert column(view, "gae", 5) == pytest.approx(expected.tolist(), abs=SHOWN)
        returns = expected + exact(values)
        assert column(view, "gae", 6) == pytest.approx(returns.tolist(), abs=SHOWN)
        assert number(view.inner_text("#mixture")) == pytest.approx(expected[0].item(), abs=SHOWN)
        assert number(view.inner_text("#weights")) == 1


def test_what_is_no_list_of_numbers_is_said_and_changes_nothing(view):
    before = column(view, "group", 3)
    for text in ("1", "1, x", "<b>1</b>, 2", "1, 1e999", ""):
        fill(view, rewards=text)
        assert view.inner_text("#group-fault") == "Write 2 to 32 numbers, with commas between them."
        assert column(view, "group", 3) == before
    fill(view, rewards="1, 2", values="1")
    assert view.inner_text("#group-fault") == ""
    assert "as many rewards as values" in view.inner_text("#gae-fault")


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_nothing_is_wider_than_the_screen(browser, width):
    view = opened(browser, FILE, [], viewport={"width": width, "height": 800})
    view.locator("#rewards").fill(", ".join(["-1000000", "1"] * 16))
    assert view.evaluate("document.documentElement.scrollWidth") == width
    view.close()
