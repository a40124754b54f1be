"""How a response is written: turns of a chat, letters and digits of other scripts, pages."""

import re
import unicodedata

from verifiers.grammar.normalize import dates_in_english, names_month
from verifiers.grammar.spoken import parts_first
from verifiers.grammar.tables import pattern, table
from verifiers.grammar.vocabulary import words

NOUNS = words(table("abroad")["nouns"])
ENGLISH = words("the are and this that these with from which answer each has have thus")
FINAL_CHANNEL = re.compile(r".*<\|channel\|>final<\|message\|>", re.S)
# Who speaks in the transcript of a chat.
TURN = re.compile(
    r"^[ \t]*(?:<\|(?:im_start\|>)?)?(user|human|assistant)(?:\|>|:|(?=\n))", re.I | re.M
)
ASKED_FIRST = ("user", "assi", "<|im", "<|us", "<|as", "huma")
SAYS = re.compile(r"[\d=\\$√π]|\b(?:yes|no|true|false|(?-i:[B-HJ]))\b", re.I)
DIGIT = re.compile(r"\d")
OWN_TURN = pattern("passages", "own_turn", flags=0)
FRENCH_TIME = re.compile(r"(?<![\d.,])([01]?\d|2[0-3])\s?h\s?([0-5]\d)(?![\d\w]|\s?min)")
IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\([^)\s]{0,300}\)")
QUOTED_WHOLE = re.compile(r"^(?:>\s+|==(?=\S))(.*?)(?:==)?$")
POINT = re.compile(
    r"(?<=\()\{?(-?\d+(?:[.,]\d+)?)\}?(?:\s|\\,)?(?:\||\\mid)(?:\s|\\,)?\{?(-?\d+(?:[.,]\d+)?)\}?(?=\))"
)
PERCENT_FIRST = re.compile(r"(?<![\w%\\])\\?%(\d+(?:[.,]\d+)?)(?![\w%])")
BARE_BOX = re.compile(r"(?<![\\\w])boxed\{")
DATE_ABROAD = re.compile(r"[0-9](?=[\s.e月월])(?:(?:\.|er)?\s(?:de\s)?([^\W\d_]{3,})|\s?[月월])")
NEAR_DATE = 200
CLOCK = re.compile(
    r"(?<!\d)(\d{1,2})\s?[時时点시]\s?(\d{2})\s?[分분]|\bв\s(\d{1,2})\sчас\w*\s(\d{2})\sминут\w*"
)
TEN_THOUSANDS = re.compile(
    r"(?<![\d.])(\d{1,4}(?:\.\d{1,4})?)\s?万(?:(\d)千|(\d{1,4})(?![\d千百]))?"
    r"(?!\s?[\d分一二三四五六七八九十百千])"
)
TEXT_OF_TEN_THOUSANDS = re.compile(r"\\(?:text|mathrm)\s*\{\s*(万[^{}\d]{0,4})\}")
SPEED = re.compile(
    r"([時时分秒])速\s?(\d+(?:\.\d+)?)\s?(km|m|公里|千米|米|キロ(?:メートル)?|メートル)(?![a-z/])"
)
SPEED_UNITS = {"時": "h", "时": "h", "分": "min", "秒": "s"}
KILOMETRES = ("km", "公里", "千米", "キロ", "キロメートル")
CENTS = re.compile(
    r"(?<![\d.,])(\d+)\s?(euros?|€|руб\w*)\.?\s(?:und\s|et\s|y\s|и\s|e\s)?"
    r"(\d\d?)\s?(?:cents?|centimes?|céntimos|коп\w*)(?!\w)\.?",
    re.I,
)
RATIO_ABROAD = re.compile(r"(?<=\d)\s(?:zu|ku|대)\s(?=\d)|∶")
HYPHEN = re.compile("(?<=[\u05d0-\u05ea])-(?=\\d)")
RUPEES = re.compile(r"(?<=\d)/-(?=[\s.,]|$)")
MONEY_FIRST = re.compile(r"\bR[ps]\.?\s?(?=\d)")
NEAR_END = 600
TURN_BEGINS = ("U", "u", "A", "a", "H", "<", " ", "\n")
HTML_POWER = re.compile(r"(?<=\w)<sup>(\d{1,3})</sup>")
HIDDEN_HTML = re.compile(
    r"<(\w{1,20})\b[^<>]{0,100}?display:\s?none[^<>]{0,100}>[^<>]{0,300}</\1>", re.I
)
HTML = re.compile(r"</?(?:p|div|span)>|<br\s*/?>")
DEGREES = re.compile(r"(\^\{?\\circ\}?)\$\s?([CF])\b")
DIGITS = re.compile(
    "[\uff10-\uff19\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u09e6-\u09ef\u0e50-\u0e59]"
)
LETTERS_WITH_DIGITS = re.compile(
    "[\u0621-\u064a\u067e-\u06cc\u0904-\u0939\u0985-\u09b9\u0e01-\u0e2e\u3040-\u30ff\u4e00-\u9fff]"
)
SEPARATORS = str.maketrans({"\u066b": ".", "\u066c": None})
PLAIN_WORD = re.compile(r"(?<![\\\w</])[^\W\d_]{2,}")
NAMES_MONEY = re.compile(r"\d,\d\d\s?€|R\$\s?\d")
_OF_A_WORD = r"[^\s<>\\{}$.,;:!?()]"
MASKED_WORD = re.compile(rf"(?<!{_OF_A_WORD}){_OF_A_WORD}*[^\x00-\x7f]{_OF_A_WORD}*")
LONGEST_MASKED = 40
INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060]")
EMOJI = re.compile(
    "[\U0001f1e6-\U0001f1ff\U0001f300-\U0001f44d\U0001f44f-\U0001f5ff\U0001f600-\U0001f643\U0001f680-\U0001f6aa\U0001f947-\U0001f9ff\ufe0f]"
)
MASKS = re.compile(
    "[\uff21-\uff5a\u24b6-\u24e9\U0001d400-\U0001d7ff\u00ad\u200b-\u200d\u2060ɴᴏᴛᴇᴡʀɢ]"
    "|[A-Za-z][аеорсухіјѕ]|[аеорсухіјѕ][A-Za-z]"
)
DENIALS = {"not", "no", "never", "isn't", "wrong", "incorrect", "false", "cannot"}
ALIKE = str.maketrans("аеорсухіјѕɴᴏᴛᴇᴡʀɢ", "aeopcyxijsnotewrg")


def own_words(text: str) -> str:
    """Return the last turn of a response in plain letters and digits, without the marks of its
    page: times as 14:35, degrees with their scale."""
    text = text if text.isascii() else in_plain_letters(text)
    end = text[-NEAR_END:]
    if (" h " in end or not end.isascii()) and FRENCH_TIME.search(end):
        text = FRENCH_TIME.sub(r"\1:\2", text)
    text = POINT.sub(r"\1, \2", text) if "(" in end and ("|" in end or "mid" in end) else text
    if "%" in end and PERCENT_FIRST.search(end):
        text = PERCENT_FIRST.sub(r"\1%", text)
    if text[:1] in ">=":
        text = QUOTED_WHOLE.sub(r"\1", text) if "\n" not in text else _unquoted(text)
    text = IMAGE.sub(" ", text) if "!" in text and "![" in text else text
    if "{" in end and "boxed{" in end and "\\boxed{" not in end:
        text = BARE_BOX.sub(r"\\boxed{", text)
    if not ("The " in end or " the " in end or end.isdigit()):
        text = _with_english_dates(text)
    if not end.isascii():
        if ("分" in end or "분" in end or "минут" in end) and CLOCK.search(end):
            text = CLOCK.sub(lambda time: f"{time[1] or time[3]}:{time[2] or time[4]}", text)
        text = RATIO_ABROAD.sub(":", text)
        if "万" in end:
            text = TEN_THOUSANDS.sub(_in_full, TEXT_OF_TEN_THOUSANDS.sub(r"\1", text))
        text = SPEED.sub(_speed, text) if "速" in end else text
        text = parts_first(text) if "分之" in end or "分の" in end or "분의" in end else text
        text = HYPHEN.sub(" ", text) if "-" in end and HYPHEN.search(end) else text
    text = CENTS.sub(_with_cents, text) if "uro" in end or "€" in end or "руб" in end else text
    text = RUPEES.sub("", text) if "/" in end and "/-" in end else text
    text = MONEY_FIRST.sub("", text) if "R" in end and ("Rp" in end or "Rs" in end) else text
    text = text.replace("{:}", ":") if "{" in end and "{:}" in end else text
    text = DEGREES.sub(r"\1\\text{\2}$", text) if "\\" in end and "circ" in end else text
    if text[:1] in TURN_BEGINS and text[:40].lstrip()[:4].lower() in ASKED_FIRST:
        text = _last_answer(text)
    if "<" not in text:
        return text
    if "<|" in text:
        text = FINAL_CHANNEL.sub("", text, count=1) if "final<|message|>" in text else text
        text = OWN_TURN.sub("", text, count=1)
    text = HIDDEN_HTML.sub(" ", text) if "none" in text else text
    text = HTML_POWER.sub(r"^\1", text) if "</sup>" in text else text
    return HTML.sub("\n", text) if "</p>" in text or "<br" in text or "</div>" in text else text


def _last_answer(text: str) -> str:
    """Return the last turn of the assistant that says a number, mathematics, a choice or yes or no,
    up to where the user asks another question."""
    marks = list(TURN.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    answer = ""
    for mark, end in zip(marks, ends, strict=False):
        said = text[mark.end() : end].strip()
        asks = mark[1].lower() != "assistant"
        if asks and answer and DIGIT.search(said):
            break
        if not asks and (SAYS.search(said) or not answer):
            answer = said
    return answer or text


def _unquoted(text: str) -> str:
    """Return a text whose every line is quoted, "> $64$", without the marks of that."""
    lines = text.strip().splitlines()
    quoted = all(line.startswith(">") or not line.strip() for line in lines)
    return "\n".join(line.removeprefix(">").strip() for line in lines) if quoted else text


def _with_english_dates(text: str) -> str:
    end = text[-NEAR_DATE:]
    if any(names_month(match[1]) for match in DATE_ABROAD.finditer(end)):
        return text[:-NEAR_DATE] + dates_in_english(end)
    return text


def _in_full(many: re.Match[str]) -> str:
    """Write 3.6万, 5万3千 and 3万5000 as 36000, 53000 and 35000."""
    return f"{float(many[1]) * 10_000 + int(many[2] or 0) * 1_000 + int(many[3] or 0):.0f}"


def _with_cents(money: re.Match[str]) -> str:
    """Write 3 Euro 50 Cent as 3.50 Euro."""
    return f"{money[1]}.{int(money[3]):02d} {money[2]}"


def _speed(said: re.Match[str]) -> str:
    """Write 時速60km as 60 km/h."""
    unit = "km" if said[3] in KILOMETRES else "m"
    return f"{said[2]} {unit}/{SPEED_UNITS[said[1]]}"


def in_plain_letters(text: str) -> str:
    """Return a text with denials in disguised letters, and digits of its script, as plain ones."""
    ended = EMOJI.match(text.rstrip()[-1:])
    text = EMOJI.sub("", text)
    text = f"{text.rstrip()}." if ended and text.rstrip()[-1:].isalpha() else text
    text = MASKED_WORD.sub(_unmasked, text) if MASKS.search(text) else text
    if DIGITS.search(text) and (LETTERS_WITH_DIGITS.search(text) or text[-1:] >= "\uff10"):
        text = DIGITS.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
        text = text.translate(SEPARATORS)
    return text


def writes_comma(text: str) -> bool:
    """Return whether a text is in a language of Europe that writes 2,5 for 2.5: a word of other
    letters, "answer" in that language, or two words and none of English."""
    said = {word.casefold() for word in PLAIN_WORD.findall(text)}
    if not said.isdisjoint(ENGLISH):
        return False
    foreign = any(not word.isascii() and word[0] < "\u0530" for word in said)
    return foreign or len(said) > 1 or not said.isdisjoint(NOUNS) or bool(NAMES_MONEY.search(text))


def _unmasked(word: re.Match[str]) -> str:
    """Return a word that denies, written in letters that look like plain ones, in plain letters."""
    if len(word[0]) > LONGEST_MASKED:
        return word[0]
    plain = unicodedata.normalize("NFKC", INVISIBLE.sub("", word[0])).translate(ALIKE)
    return plain if plain.lower() in DENIALS else word[0]
