"""Make the problems of reasoning-gym and score answers to them, in a worker process only.

The scorers of one version were read, one by one. Those that evaluate an answer as code are never
called, nor is any generator that is not in these lists.
"""

import difflib
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import import_module, metadata
from typing import Any

from verifiers.grammar.parse import tree_of
from verifiers.grammar.vocabulary import words
from verifiers.values.same_value import rational

VERSION = "0.1.25"
"""The version of reasoning-gym whose scorers were read."""
VALUES = words(
    "aiw basic_arithmetic binary_alternation chain_sum coin_flip complex_arithmetic count_bits "
    "count_primes decimal_chain_sum dice gcd gsm_symbolic largest_island lcm leg_counting "
    "letter_counting maze number_sequence products rotten_oranges self_reference simple_equations "
    "simple_geometry"
)
"""Generators whose answers are values, which our own rules compare."""
SCORED = words(
    "ab acre advanced_geometry arc_1d arc_agi base_conversion bf bitwise_arithmetic caesar_cipher "
    "calendar_arithmetic circuit_logic color_cube_rotation course_schedule cryptarithm "
    "decimal_arithmetic emoji_mystery family_relationships figlet_font fraction_simplification "
    "futoshiki game_of_life group_anagrams isomorphic_strings jugs kakurasu knight_swap "
    "knights_knaves letter_jumble list_functions mahjong_puzzle manipulate_matrix mini_sudoku "
    "modulo_grid needle_haystack number_filtering number_format palindrome_generation "
    "palindrome_partitioning path_star polynomial_equations pool_matrix power_function "
    "prime_factorization quantum_lock ransom_note rearc rectangle_count rotate_matrix "
    "sentence_reordering shortest_path sokoban spell_backward string_manipulation "
    "string_splitting string_synthesis sudoku survo syllogism time_intervals tower_of_hanoi "
    "tsumego word_ladder word_sequence_reversal word_sorting zebra_puzzles"
)
"""Generators whose own `score_answer` scores."""
EXPRESSIONS = words("countdown puzzle24")
"""Generators that ask for an expression. Their scorers evaluate it, so our grammar reads it."""
ACCEPTED = sorted(VALUES | SCORED | EXPRESSIONS)
_EVALUATES = "its scorer evaluates an answer as code"
_HAS_NO_ANSWER = "its problems have no answer by which its scorer could be checked"
REFUSED = {
    "binary_matrix": _EVALUATES,
    "boxnet": _HAS_NO_ANSWER,
    "codeio": "it runs the programs of a data file",
    "composite": "it is made of others: join them with +",
    "game_of_life_halting": "its scorer pays any answer to a problem",
    "graph_color": _HAS_NO_ANSWER,
    "intermediate_integration": _EVALUATES,
    "n_queens": _EVALUATES,
    "number_sorting": "its scorer pays a list of NaN",
    "polynomial_multiplication": _EVALUATES,
    "propositional_logic": _HAS_NO_ANSWER,
    "rubiks_cube": _HAS_NO_ANSWER,
    "rush_hour": _HAS_NO_ANSWER,
    "simple_integration": _EVALUATES,
    "spiral_matrix": _EVALUATES,
    "string_insertion": _EVALUATES,
}
"""The other generators of that version, each with the reason for which it is refused."""
FIELD = "gym"
"""The field of a problem that holds its place, if a generator's own rules score its answers."""
_PLACE = re.compile(r"(\w{1,40}(?:\?[^#]{1,1000})?)#(\d{1,9})\.([0-9a-f]{8})", re.ASCII)
"""A generator with its settings, the number of a problem, and the start of the text's SHA-256."""
_EXPRESSION = re.compile(
    r"(?!.*(?:\*\s*\*|/\s*/|\d\s+\d))[\d\s+*/()×÷-]{1,500}", re.ASCII | re.DOTALL
)
_CRUMBS = 0.1
"""The largest score that scorers give for the mere form of a wrong answer."""
_CHUNK = 1000
"""Problems of a data set of reasoning-gym: some make all of them when they are created."""


def place_of(row: Mapping[str, Any]) -> str | None:
    """Return the place by which answers to a problem are scored. Return None for other rows, among
    them those whose problem has not the place's text."""
    place = row.get(FIELD)
    found = _PLACE.fullmatch(place) if isinstance(place, str) else None
    is_its_own = found is not None and found[3] == _digest(str(row.get("problem")))
    return place if is_its_own else None


def countdown_place(numbers: list[int], target: int, problem: str) -> str:
    """Return the place of a countdown of another data set, by its own numbers and target."""
    settings = f"numbers={json.dumps(numbers)}&target={target}".replace(" ", "")
    return f"countdown?{settings}#0.{_digest(problem)}"


def settings_of(generator: str) -> dict[str, Any]:
    """Read `NAME?SETTING=VALUE&…`. Raises ValueError for a generator that is refused or not known,
    and for a setting without a value."""
    name, _, query = generator.partition("?")
    if name not in ACCEPTED:
        near = difflib.get_close_matches(name, ACCEPTED) or ACCEPTED
        raise ValueError(REFUSED.get(name, f"no such generator; near are {', '.join(near)}"))
    settings: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        key, equals, text = part.partition("=")
        if not equals:
            raise ValueError(f"{part}: give NAME=VALUE")
        try:
            settings[key] = json.loads(text)
        except ValueError:
            settings[key] = text
    return settings


def answering() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the function that answers a worker's questions.

    A question has a `generator` with its settings, the number of the `first` problem and a `count`;
    or a `place` and an `answer`. The reply has `rows`, a `score` from 0 to 1, or an `error`.
    """
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a thread takes address space, which is limited
    with suppress(ImportError):  # which a question reports
        import_module("reasoning_gym")

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        try:
            if "answer" in question:
                return {"score": _score(question["place"], question["answer"])}
            numbers = range(question["first"], question["first"] + question["count"])
            return {"rows": [_row(question["generator"], number) for number in numbers]}
        except MemoryError:
            raise
        except ModuleNotFoundError:
            return {"error": f"pip install 'reasoning-gym=={VERSION}'"}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    return answer


def _row(generator: str, number: int) -> dict[str, Any]:
    """Make a problem as a row, with its place."""
    _, problem = _problem(generator, number)
    question = problem["question"]
    return {
        "problem": question,
        "answer": problem["answer"],
        "difficulty": problem["metadata"].get("difficulty"),
        "place": f"{generator}#{number}.{_digest(question)}",
    }


def _score(place: str, answer: str) -> float:
    """Score an answer. A scorer's crumbs, for the mere form of a wrong answer, count as 0.

    Raises ValueError if the place names another problem here than where it was made.
    """
    generator, _, end = place.rpartition("#")
    number, _, digest = end.partition(".")
    name = generator.partition("?")[0]
    if name in VALUES:
        raise ValueError(f"answers to {generator} are compared, and not scored")
    settings = settings_of(generator)
    if name in EXPRESSIONS and "numbers" in settings:
        return float(makes(answer, settings["numbers"], settings["target"]))
    data_set, problem = _problem(generator, int(number))
    if _digest(problem["question"]) != digest:
        raise ValueError(f"{generator} makes another problem {number} here")
    if name in EXPRESSIONS:
        facts = problem["metadata"]
        return float(makes(answer, facts["numbers"], facts.get("target", 24)))
    try:
        score = float(data_set.score_answer(answer.strip(), problem))
    except MemoryError:
        raise
    except Exception:  # scorers raise at answers of another shape
        return 0.0
    return score if _CRUMBS < score <= 1 else 0.0


def makes(expression: str, numbers: list[int], target: int) -> bool:
    """Return whether an expression uses each of the numbers once, and has the target's value."""
    if not _EXPRESSION.fullmatch(expression):
        return False
    used = [int(digits) for digits in re.findall(r"\d+", expression)]
    tree = tree_of(expression)
    return sorted(used) == sorted(numbers) and tree is not None and rational(tree) == target


def _digest(question: str) -> str:
    return hashlib.sha256(question.strip().encode(errors="replace")).hexdigest()[:8]


@lru_cache(256)
def _problem(generator: str, number: int) -> tuple[Any, dict[str, Any]]:
    """Make a problem. Return its data set as well."""
    chunk, index = divmod(number, _CHUNK)
    data_set = _data_set(generator, chunk)
    return data_set, data_set[index]


@lru_cache(16)
def _data_set(generator: str, chunk: int) -> Any:
    """Create a data set. Raises ValueError for a generator or a setting that is not known,
    ModuleNotFoundError without the version that was read."""
    settings = settings_of(generator)
    if metadata.version("reasoning-gym") != VERSION:
        raise ModuleNotFoundError
    factory = import_module("reasoning_gym.factory")
    name = generator.partition("?")[0]
    known = factory.DATASETS[name][1].__dataclass_fields__
    unknown = settings.keys() - known
    if unknown:
        raise ValueError(f"no setting {', '.join(unknown)}; it has {', '.join(known)}")
    seed = settings.get("seed", 1) + chunk * _CHUNK
    return factory.create_dataset(name, **{**settings, "seed": seed, "size": _CHUNK})
