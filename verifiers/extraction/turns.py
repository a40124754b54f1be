"""Find the final text of a response, from the end of the thought to the end of the model's turn.

One table holds the marks of all families of models. Others are only counted."""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice

# The marks without their first sign, by which a search finds them fast.
_ROLE_AFTER = r"\|(?:im_start|start|start_header_id|header_start|start_of_role)\|>\s*"
_TURN = rf"(?:{_ROLE_AFTER}|start_of_turn>|\|turn>|\|START_OF_TURN_TOKEN\|>)"
_HEADER_END = r"(?:<\|(?:end_header_id|header_end|end_of_role|im_sep)\|>)?"
MARKS = {
    "open": r"think(?:ing)?>|thought>|reasoning>|seed:think>|THINK\]|think▷|\|channel>"
    r"|\|(?:begin_of_thought|START_THINKING)\|>|\|im_start\|>\s*think\b|\|channel\|>(?!final)",
    "close": r"/(?:think(?:ing)?|thought|reasoning|seed:think)>|/THINK\]|/think▷|channel\|>"
    r"|\|(?:end_of_thought|begin_of_solution|END_THINKING|START_RESPONSE)\|>"
    r"|\|im_start\|>\s*answer\b|\|channel\|>final(?:\s?<\|constrain\|>\w*)?(?:<\|message\|>)?",
    "own": rf"{_TURN}(?:assistant|model\b|<\|CHATBOT_TOKEN\|>){_HEADER_END}|｜Assistant｜>|/INST\]"
    r"|\|(?:assistant|CHATBOT_TOKEN|im_assistant\|>assistant<\|im_middle)\|>",
    "begin": rf"{_TURN}|\|(?:user|system|observation|USER_TOKEN|SYSTEM_TOKEN|im_user|im_system)\|>"
    r"|\|(?:begin_of_text|startoftext|BOS_TOKEN)\|>|s>|bos>|｜(?:User|begin▁of▁sentence)｜>|INST\]",
    "end": r"\|(?:im_end|endoftext|eot_id|eot|eom_id|eom|end_of_text|end|return|call|endofturn"
    r"|END_OF_TURN_TOKEN|END_RESPONSE|EOS_TOKEN|end_of_solution)\|>|/s>|eos>|pad>|end_of_turn>"
    r"|turn\|>|｜end▁of▁sentence｜>|\|endofturn\|\]",
}
"""What opens and closes a thought, begins the model's turn or another's, and ends a turn."""
MARK = re.compile(rf"[<\[◁](?:{'|'.join(f'(?P<{kind}>{marks})' for kind, marks in MARKS.items())})")
FIRST_SIGNS = ("<", "THINK]", "◁", "INST]", "[|")
PLAIN_HARMONY = re.compile(r"\s*analysis")  # whose special tokens were dropped
FORCED = "Final Answer:"  # with which s1's program ends a thought that is too long
SHAPE = re.compile(
    r"<\|[^<>|\s]{1,40}\|>|</?[\w-]{1,30}:think>|◁[^◁▷\n]{1,30}▷|\[/[A-Z][A-Z_]{2,30}\]"
)
ALSO_KNOWN = re.compile(rf"{_HEADER_END}|<\|(?:message|constrain|im_middle)\|>")
MOST_UNKNOWN = 0.1
"""Share of the responses of a file that may hold unknown marks without a remark."""
MOST_NAMED = 3
MOST_SHAPES = 100  # that are looked at in a response


def final_text(response: str, *, think_open: bool = False) -> str | None:
    """Return what follows the thought, up to the end of the model's turn, or None while a thought
    is open. Of a whole transcript it is the model's last turn."""
    if "assistantfinal" in response and PLAIN_HARMONY.match(response):
        response = response.rpartition("assistantfinal")[2]
    if not _may_hold_marks(response):
        return None if think_open else response
    start, marks, _ = _own_turn(response)
    end = len(response)
    thoughts = [mark.lastgroup for mark in marks if mark.lastgroup in ("open", "close")]
    is_open = think_open or thoughts[:1] == ["close"]
    goes_on = False
    last_mark = ""
    for at, mark in enumerate(marks):
        if mark.lastgroup in ("open", "close"):
            is_open = mark.lastgroup == "open"
            start = mark.end()
            last_mark = mark[0]
        elif is_open:
            continue  # a thought may speak of marks
        elif mark.lastgroup == "own" or _goes_on(response, marks[at : at + 2]):
            goes_on = True
        else:
            end = mark.start()
            break
    if is_open:
        _, forced, answer = response[start:].rpartition(FORCED)
        return final_text(answer) if forced and last_mark.endswith("|>think") else None
    return MARK.sub("\n", response[start:end]) if goes_on else response[start:end]


def turn_mark(text: str) -> str | None:
    """Return the first mark of a text that begins a turn. Return None for a text without turns."""
    if not _may_hold_marks(text):
        return None
    turns = (mark for mark in MARK.finditer(text) if mark.lastgroup in ("own", "begin"))
    return next((mark[0] for mark in turns if mark[0] != "<s>"), None)  # which also strikes out


def _may_hold_marks(text: str) -> bool:
    """Return whether a text holds the first signs of a mark, at a tenth of the time of a search."""
    return any(sign in text for sign in FIRST_SIGNS)


def _own_turn(response: str) -> tuple[int, list[re.Match[str]], bool]:
    """Return where the model's turn begins, the marks from there, and whether it follows the turns
    of a transcript: then it is the model's last."""
    marks = list(MARK.finditer(response))
    start = first = 0
    for mark in marks:  # the headers at the beginning
        if mark.lastgroup not in ("own", "begin") or response[start : mark.start()].strip():
            break
        start = mark.end()
        first += 1
    owns = [at for at, mark in enumerate(marks) if mark.lastgroup == "own"]
    if first and marks[first - 1].lastgroup == "begin" and owns and owns[-1] >= first:
        return marks[owns[-1]].end(), marks[owns[-1] + 1 :], True
    return start, marks[first:], False


def _goes_on(text: str, marks: list[re.Match[str]]) -> bool:
    """Return whether the model's turn goes on right after the first of two marks:
    <|end|><|start|>assistant."""
    if marks[-1].lastgroup != "own":
        return False
    return not text[marks[0].end() : marks[-1].start()].strip()


class ChatMarks:
    """Counts the responses that are whole transcripts, or hold marks that the table lacks."""

    def __init__(self) -> None:
        self._responses = 0
        self._transcripts = 0
        self._with_unknown = 0
        self._unknown: Counter[str] = Counter()

    def add(self, responses: Iterable[str]) -> None:
        """Count the marks of some responses."""
        for response in responses:
            unknown = unknown_marks(response)
            self._responses += 1
            if is_transcript(response):
                self._transcripts += 1
            if unknown:
                self._with_unknown += 1
            self._unknown.update(unknown)

    def lines(self) -> list[str]:
        """Return one line for each thing that a figure over these responses must say."""
        said = []
        if self._transcripts:
            said.append(
                f"{self._transcripts} of {self._responses} responses are whole transcripts, with "
                "the prompt: the last turn of the model is judged"
            )
        if self._with_unknown > MOST_UNKNOWN * self._responses:
            names = ", ".join(name for name, _ in self._unknown.most_common(MOST_NAMED))
            said.append(
                f"{self._with_unknown} of {self._responses} responses hold what looks like a chat "
                f"mark that the verifier does not know ({names}): a thought or a turn that they "
                "end is judged as if it were the answer"
            )
        return said


def is_transcript(response: str) -> bool:
    """Return whether a response holds the prompt too: it begins with another's turn, and the
    model's follows."""
    return _may_hold_marks(response) and _own_turn(response)[2]


def unknown_marks(response: str) -> set[str]:
    """Return what has the shape of a mark and is not in the table."""
    shapes = {shape[0] for shape in islice(SHAPE.finditer(response), MOST_SHAPES)}
    return {
        shape
        for shape in shapes
        if not (MARK.match(shape) or ALSO_KNOWN.fullmatch(shape))
        and (shape[0] != "[" or shape.replace("/", "") in response)
    }
