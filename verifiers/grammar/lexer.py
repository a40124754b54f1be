"""Split an answer into tokens: LaTeX, plain text and mixtures of both, in one linear scan."""

import re
from dataclasses import dataclass
from string import ascii_letters

from verifiers.grammar import vocabulary
from verifiers.grammar.spelling import plain_signs
from verifiers.grammar.tree import ParseError, TooLargeError

MAX_TOKENS = 3000  # a list of 1,500 numbers
MAX_GROUP_DEPTH = 40  # of \text{…} and the like, far more than a person nests
_GROUPED = r"[1-9]\d{0,2}(?:(?P<sep>%s)\d{3}(?:(?P=sep)\d{3})*)(?!\d)(?:\.\d+)?"
_PLAIN = r"\d+(?:\.\d+)?|\.\d+"
_EXPONENT = r"(?:[eE][-+]?\d{1,12}(?![\dA-Za-z]))?"
LOOSE_SEPARATORS = r"\\!,\\!|,|\{,\}|,\\!\s*|\\,|\\ | "
TIGHT_SEPARATORS = r"\{,\}|,\\!\s*|\\,"
INSIDE = re.compile(r"[^)\]}]{0,2000}")
OPENING_BRACKETS = {"sign": ("(", "["), "command": ("{", "lbrace", "langle")}
CLOSING_BRACKETS = {"sign": (")", "]"), "command": ("}", "rbrace", "rangle")}
NUMBER = {
    grouping: re.compile(f"(?:{_GROUPED % separators}|{_PLAIN}){_EXPONENT}", re.ASCII)
    for grouping, separators in ((True, LOOSE_SEPARATORS), (False, TIGHT_SEPARATORS))
}
SCRIPT_NUMBER = re.compile(_PLAIN, re.ASCII)  # \log_2 128 has no thousands
RECURRING = re.compile(r"\d*\.\d*\\(?:overline|bar|dot)\s*(?:\{\s*\d+\s*\}|\d)", re.ASCII)
ROW_SPACE = re.compile(r"\*?\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm|in|px)\s*\]", re.ASCII)
# Letters beyond ASCII. Signs of a scale are words of their own: 3万円.
_LATIN = "A-Za-zÀ-ÖØ-öø-ɏ\u0300-\u036f\u1e00-\u1eff"
_SIGNS = "[百千万萬億亿兆打]"
_SCALE = rf"千[米克瓦]|{_SIGNS}|만|백|천|억|พัน|หมื่น|แสน|ล้าน"
_OTHER = rf"(?:(?!{_SIGNS})[^\W\d{_LATIN}]|[\u0900-\u0dff\u0e31-\u0e4e\u3099\u309a])"
LETTERS = re.compile(rf"[A-Za-z]+(?![{_LATIN}])|[{_LATIN}]+|{_SCALE}|{_OTHER}+")
COMMAND = re.compile(r"\\(?:[A-Za-z]+|[\s\S])")
SPACES = re.compile(r"\s+")
STAR = re.compile(r"\*?\s*")
ARROW_NAME = re.compile(r"\s*([A-Z])\s*([A-Z])\s*")
SET_MARK = re.compile(r"\s*[_^]\s*(?:\{\s*([^{}]{1,12}?)\s*\}|([-+*]|\w(?!\w)))")
USUAL_NAMES = {
    "|": "Vert",
    "bar": "overline",
    "cr": "\\",
    "newline": "\\",
    "mod": "pmod",
    "bmod": "pmod",
    "dbinom": "binom",
    "tbinom": "binom",
    "dfrac": "frac",
    "tfrac": "frac",
    "cfrac": "frac",
}
PAIRS = {
    "**": ("sign", "^"),
    "<=": ("command", "le"),
    ">=": ("command", "ge"),
    "!=": ("command", "ne"),
}
WORD_COMMANDS = {"top": "T", "intercal": "T", "AA": "Å"}
SIGNS = set("+-*/^_=<>()[]{}|,;:!%&'$€£¥₹¢₽₩฿₫₺৳₪₴₱₦")


@dataclass(frozen=True)
class Token:
    """Holds the text of a token, and its kind: number, word, command, sign, begin, end or setname.

    `spaced`: a space stands before it. `text_mode`: it stands inside of \\text{…}.
    """

    kind: str
    text: str
    spaced: bool = False
    text_mode: bool = False


def tokenize(text: str, *, grouping: bool = True) -> list[Token]:
    """Split an answer into tokens. With `grouping`, 1,234 is one number.

    Raises ParseError for characters outside the grammar, TooLargeError past the limits.
    """
    lexer = _Lexer(plain_signs(text), grouping)
    lexer.run()
    return lexer.tokens


class _Lexer:
    def __init__(self, text: str, grouping: bool) -> None:
        self.text = text
        self.grouping = grouping
        self.separating: list[bool] = []  # of the open brackets: whether a plain comma separates
        self.tokens: list[Token] = []
        self.position = 0
        self.spaced = False
        # where each open \text-like group closes, and whether it holds words or mathematics
        self.groups: list[tuple[int, bool]] = []

    def run(self) -> None:
        while self.position < len(self.text):
            if self.groups and self.position == self.groups[-1][0]:
                self.groups.pop()
                self.position += 1
                continue
            self._step()
            if len(self.tokens) > MAX_TOKENS:
                raise TooLargeError("too many tokens")

    def _step(self) -> None:
        """Read at most one token at the position."""
        char = self.text[self.position]
        number = None if char in SIGNS else self._number()
        if char.isspace() or char in '$~"`':
            self.position += 1
            self.spaced = True
        elif number:
            self._emit("number", number[0], number.end())
        elif char in SIGNS:
            self._sign(char)
        elif char in ".?":
            self._stop(char)
        elif char in ascii_letters or (not char.isascii() and char.isalpha()):
            end = self._end(LETTERS, self.position)
            self._emit("word", self.text[self.position : end], end)
        elif COMMAND.match(self.text, self.position):
            end = self._end(COMMAND, self.position)
            self._command(self.text[self.position + 1 : end], end)
        else:
            raise ParseError(f"unexpected character {char!r}")

    def _number(self) -> re.Match[str] | None:
        """Return the number that begins here. Thousands are grouped unless a comma separates."""
        if self.position and self.text[self.position - 1] in "_^":
            return SCRIPT_NUMBER.match(self.text, self.position)
        number = NUMBER[self.grouping and not any(self.separating)]
        recurring = RECURRING.match(self.text, self.position)
        return recurring or number.match(self.text, self.position)

    def _stop(self, char: str) -> None:
        """Read three dots. Skip a full stop that ends the answer, a word or an abbreviation."""
        in_words = any(is_words for _, is_words in self.groups[-1:])
        at_end = not self.text[self.position + 1 :].strip(" .$}*\n)\\]")
        context = self.text[self.position - 2 : self.position + 2]
        after_word = len(context) == 4 and context[:2].isalpha() and context[3] == " "  # sq. ft
        if self.text.startswith("...", self.position):
            self._emit("command", "ldots", self.position + 3)
        elif char == "." and (at_end or in_words or after_word):
            self.position += 1
        else:
            raise ParseError("full stop inside")

    def _emit(self, kind: str, text: str, end: int) -> None:
        """Append a token. Note whether a plain comma separates in a bracket, as in (1,234)."""
        if text in OPENING_BRACKETS.get(kind, ()):
            bracketed = INSIDE.match(self.text, end)
            self.separating.append(", " not in bracketed[0] if bracketed else True)
        elif text in CLOSING_BRACKETS.get(kind, ()) and self.separating:
            self.separating.pop()
        text_mode = any(is_words for _, is_words in self.groups)
        self.tokens.append(Token(kind, text, self.spaced, text_mode))
        self.position = end
        self.spaced = False

    def _sign(self, char: str) -> None:
        pair = self.text[self.position : self.position + 2]
        if pair in PAIRS:
            self._emit(*PAIRS[pair], self.position + 2)
        elif self.text.startswith("+/-", self.position):
            self._emit("command", "pm", self.position + 3)
        else:
            self._emit("sign", char, self.position + 1)

    def _command(self, name: str, end: int) -> None:
        """Read a command whose name ends at `end`, and what belongs to it."""
        if name == "\\":
            end = self._end(ROW_SPACE, end)
        if name in vocabulary.SPACING:
            self.position = end
            self.spaced = self.spaced or name != "!"  # f\!(x) is f(x)
        elif name in ("left", "right") and self.text[end : end + 1] == ".":
            self.position = end + 1
        elif name in ("left", "right") and self.text[end : end + 1] == "|":
            self._emit("command", "lvert" if name == "left" else "rvert", end + 1)
        elif name in vocabulary.SILENT:
            self.position = end
        elif name in vocabulary.SKIPPED_WITH_GROUP:
            self.position = self._group_end(self._end(STAR, end)) + 1
        elif name in ("begin", "end"):
            self._environment(name, end)
        elif name == "mathbb":
            self._set_name(end)
        elif name in vocabulary.TEXT_GROUPS:
            self._open_group(name, end)
        elif name in ("%", "$", "&", "_", "#"):
            self._emit("sign" if name != "$" else "command", name, end)
        elif name in WORD_COMMANDS:
            self._emit("word", WORD_COMMANDS[name], end)
        elif name == "not":
            opposite = {"=": "ne", ">": "le", "<": "ge"}.get(self.text[end : end + 1])
            if opposite is None:
                raise ParseError("unsupported negation")
            self._emit("command", opposite, end + 1)
        else:
            self._emit("command", USUAL_NAMES.get(name, name), end)

    def _end(self, pattern: re.Pattern[str], position: int) -> int:
        """Return where a match at a position ends, or the position if there is no match."""
        match = pattern.match(self.text, position)
        return match.end() if match else position

    def _group_end(self, opening: int) -> int:
        """Return the position of the brace that closes the group opened at `opening`."""
        if self.text[opening : opening + 1] != "{":
            raise ParseError("group expected")
        depth = 0
        for position in range(opening, len(self.text)):
            char = self.text[position]
            if char in "{}" and self.text[position - 1 : position] != "\\":
                depth += 1 if char == "{" else -1
                if depth == 0:
                    return position
        raise ParseError("unclosed group")

    def _open_group(self, name: str, end: int) -> None:
        """Open the group of \\text{…} and the like. Skip the command if no group follows."""
        opening = self._end(SPACES, end)
        if not self.text.startswith("{", opening):
            self.position = end
            return
        if len(self.groups) >= MAX_GROUP_DEPTH:
            raise TooLargeError("groups too deep")
        closing = self._group_end(opening)
        content = self.text[opening + 1 : closing]
        letters = ARROW_NAME.fullmatch(content)
        if letters and name in ("vec", "overrightarrow"):
            self._emit("command", f"{letters[1]}{letters[2]} arrow", closing + 1)
            return
        is_letter = len(content.strip()) == 1 and name != "text"
        is_words = name not in vocabulary.MATH_GROUPS and not is_letter
        self.groups.append((closing, is_words))
        self.position = opening + 1
        self.spaced = True

    def _environment(self, name: str, end: int) -> None:
        """Read \\begin{…} or \\end{…}. Skip the columns of an array."""
        opening = self._end(SPACES, end)
        closing = self._group_end(opening)
        environment = self.text[opening + 1 : closing].strip("* ")
        end = closing + 1
        if name == "begin" and environment == "array":
            columns = self._end(SPACES, end)
            if self.text.startswith("{", columns):
                end = self._group_end(columns) + 1
        self._emit(name, environment, end)

    def _set_name(self, end: int) -> None:
        """Read \\mathbb{R} and its subscript or superscript. \\mathbb P( is a probability."""
        opening = self._end(SPACES, end)
        if self.text.startswith("{", opening):
            end = self._group_end(opening) + 1
            name = self.text[opening + 1 : end - 1].strip()
        else:
            name = self.text[opening : opening + 1]
            end = opening + 1
        if name in ("P", "E") and self.text[end : end + 1] in ("(", "["):
            self._emit("word", name, end)
            return
        mark = SET_MARK.match(self.text, end)
        if mark:
            name = f"{name}{mark[0].strip()[0]}{mark[1] or mark[2]}"
            end = mark.end()
        self._emit("setname", name, end)
