"""Try a stranger's tokenizer in a cage, before it is used in this process.

A tokenizer is a program of the directory it comes from: its rules may make a thousand characters of
one, or look for a match for hours, in a library that no signal stops.
"""

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from rlvr_cli.core.cage import CageError, in_cage
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.jsonl import JsonObject, parse_json
from rlvr_cli.core.text import GIB
from rlvr_cli.model.pretrained import from_pretrained

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TRIAL_S = 10.0
TRIAL_BYTES = 2 * GIB
"""What a trial may take beyond what this process has. A tokenizer with 256,000 tokens takes less
than 0.1 s and 50 MB."""
BUILT_IN = Path(str(resources.files("rlvr_cli") / "tiny"))
"""The directory of the built-in model, which is ours."""
FILE = "tokenizer.json"
_RUN = 12
"""Repetitions of a character: an expression that goes back over them takes 4,096 ways."""
_SCRIPTS = {
    "Latin": (0xC0, 160),
    "Greek": (0x391, 57),
    "Cyrillic": (0x410, 64),
    "Hebrew": (0x5D0, 27),
    "Arabic": (0x621, 42),
    "Devanagari": (0x904, 54),
    "Thai": (0xE01, 58),
    "Hangul": (0xAC00, 200),
    "Kana": (0x3041, 180),
    "Han": (0x4E00, 400),
    "mathematics": (0x2200, 200),
    "emoji": (0x1F600, 80),
}
"""By script, the first code point and how many follow."""
_SENTENCES = (
    "What is 47 * 6 + 15? Let's see: 47 * 6 = 282, and 282 + 15 = 297.\n\n"
    "<think>\nIf \\(x^2 - 5x + 6 = 0\\), then \\frac{5 \\pm \\sqrt{25 - 24}}{2}.\n</think>\n"
    "def f(n):\n    return [i for i in range(n) if i % 2 == 0]\n"
    "Die Größe der Fläche beträgt 1.234,5 m². Où est-ce? ¿Cuántos años? Сколько будет 7 на 8?\n"
    "三角形的面积是多少？ 三角形の面積は？ 삼각형의 넓이는? ما هي مساحة المثلث؟ त्रिभुज का क्षेत्रफल?\n"
)
_LONG = "".join(f"{text * 40}!\n" for text in ("a", "x", "Ab", "0", " ", "a ", "é", "中"))


def _parts() -> list[str]:
    """Return texts of 4,000 characters together."""
    printable = "".join(chr(code) * _RUN for code in range(0x20, 0x7F))
    scripts = ["".join(map(chr, range(first, first + n))) for first, n in _SCRIPTS.values()]
    parts = [_SENTENCES, _LONG, printable, *scripts]
    return [*parts, "a b" * ((4_000 - len("".join(parts))) // 3)]


TRIAL_TEXTS = _parts()


def try_tokenizer(tokenizer: "PreTrainedTokenizerBase") -> None:
    """Encode and decode 4,000 characters of several scripts in a cage.

    Raises UserError if that takes more than 10 s or 2 GiB. That a tokenizer refuses a text is no
    reason: the texts of this run may be others.
    """

    def work() -> None:
        for text in ("".join(TRIAL_TEXTS), *TRIAL_TEXTS):
            there_and_back(tokenizer, text)

    in_trial(work, "its tokenizer cannot be used: on 4,000 characters of several scripts")


def there_and_back(tokenizer: "PreTrainedTokenizerBase", text: str) -> None:
    """Encode and decode a text, unless the tokenizer refuses it."""
    try:
        tokenizer.decode(tokenizer.encode(text))
    except MemoryError:
        raise
    except Exception:  # whatever a tokenizer may refuse
        return


def in_trial(work: Callable[[], None], what: str) -> None:
    """Do work with a tokenizer in a cage. Raises UserError, which begins with `what`, if it exceeds
    the limits."""
    try:
        in_cage(work, TRIAL_S, TRIAL_BYTES)
    except CageError as error:
        raise UserError(f"{what} {error}") from None


def load_tokenizer(directory: Path | str, files: Path) -> "PreTrainedTokenizerBase":
    """Load the tokenizer of a model whose files lie in `files`, and try it, unless it is ours.

    Raises UserError if it takes too much time or memory.
    """
    import transformers

    def load() -> None:
        from_pretrained(transformers.AutoTokenizer, directory)

    if _normalizes_as_it_loads(files):
        in_trial(load, "its tokenizer cannot be loaded: with the tokens that it adds")
    tokenizer: PreTrainedTokenizerBase = from_pretrained(transformers.AutoTokenizer, directory)
    if files != BUILT_IN:
        try_tokenizer(tokenizer)
    return tokenizer


def _normalizes_as_it_loads(directory: Path) -> bool:
    """Return whether the tokenizer of a directory applies its rules while it is loaded, to tokens
    that were added to its vocabulary."""
    try:
        stored: JsonObject = parse_json((directory / FILE).read_bytes())
        tokens = stored["added_tokens"]
        return bool(stored["normalizer"]) and any(token["normalized"] for token in tokens)
    except (OSError, ValueError, LookupError, TypeError):
        return False
