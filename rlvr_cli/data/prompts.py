"""Render a problem to the token ids that the policy continues."""

import hashlib
import inspect
import json
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from rlvr_cli.config.built_in import TEMPLATES, is_inline_template
from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import reading
from rlvr_cli.core.limits import bounded
from rlvr_cli.core.text import one_line, opens_thought, shortened
from rlvr_cli.core.types import Completion, Problem, Prompt, Turn
from verifiers import Format

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SHORT = 60
_SECONDS = 10.0
_SECONDS_EACH = 0.1
"""Seconds that a chat template may take in addition for each problem."""
_MEMORY = 1 << 30
"""Bytes that a chat template may take beyond those of the process."""
_SHORTEST_S = 0.001
_NO_SYSTEM = "; put what it says into --prompt 'TEXT {problem}' instead"
_UNKNOWN = re.compile(r"\{(question|prompt|input|instruction|query|system|examples)\}")
"""Placeholders of other programs' templates."""
_CLOCK = "strftime_now"
"""The function by which a chat template writes the date."""
_REPLY = "Five."
_QUESTIONS = ("What is 47 * 6 + 15?", "Add 2 and 3.")
_RESPONSES = (
    "<think>47 * 6 = 282, and 282 + 15 = 297</think><answer>297</answer>",
    "5",
    "It is 297.",
    "Two and three are five, so the answer is \\boxed{5}.",
)
FORMATS: dict[str, Format] = {"think_answer": "think_answer", "boxed": "boxed"}
"""The form that a template asks for, by which answers are judged. Other templates take any."""


def render_prompts(
    problems: Sequence[Problem],
    tokenizer: "PreTrainedTokenizerBase",
    template: str,
    context: int,
    max_tokens: int,
    system: str | None = None,
    arguments: Mapping[str, object] = MappingProxyType({}),
    date: datetime | None = None,
) -> tuple[list[Prompt], list[str]]:
    """Render every problem as a prompt, by the tokenizer's chat template if it has one.

    The problem follows the turns of its own chat, whose system turn `system` replaces. `arguments`
    are passed to the chat template. A template that writes a date writes `date`, by default
    today's.

    Return the prompts that leave room for `max_tokens` in a context of `context` tokens, and one
    line for each other problem. Raises UserError for an unknown template, and if the chat template
    fails or takes too much time or memory.
    """
    pattern = template_text(template)
    prompts = []
    too_long = []
    _check_arguments(tokenizer, arguments)
    if writes_date(tokenizer):
        clock = datetime.now() if date is None else date
        arguments = {_CLOCK: clock.strftime, **arguments}
    longest = context * max(map(len, tokenizer.get_vocab()))  # characters
    deadline = time.monotonic() + _SECONDS + _SECONDS_EACH * len(problems)
    for problem in problems:
        name = f"problem {problem.id[:_SHORT]}"
        chat = chat_of(problem, pattern, system)
        length = len(problem.problem) + sum(len(content) for _, content in chat[:-1])
        if length <= longest:
            text = _opened(_rendered(tokenizer, chat, name, deadline, arguments), problem.opening)
            length = len(text)
        if length > longest:
            too_long.append(f"{name}: {length} characters cannot fit a context of {context} tokens")
            continue
        token_ids = _encoded(text, tokenizer)
        if len(token_ids) + max_tokens > context:
            too_long.append(
                f"{name}: its prompt of {len(token_ids)} tokens and a response of "
                f"{max_tokens} do not fit the model's context of {context}"
            )
            continue
        prompts.append(Prompt(problem, text, tuple(token_ids), opens_thought(text)))
    return prompts, too_long


def chat_of(problem: Problem, pattern: str, system: str | None) -> tuple[Turn, ...]:
    """Return the turns that put a problem to a model: those of its own chat, whose system turn
    `system` replaces, and the problem in the text of a template."""
    turns = problem.turns
    if system is not None:
        turns = (("system", system), *(turn for turn in turns if turn[0] != "system"))
    return (*turns, ("user", pattern.replace("{problem}", problem.problem)))


def _opened(text: str, opening: str) -> str:
    """Return a prompt with the opening of its response, which the policy goes on from. A thought
    that the chat template has opened already is not opened twice."""
    if opens_thought(text):
        opening = opening.lstrip().removeprefix("<think>")
    return text + opening


def _check_arguments(tokenizer: "PreTrainedTokenizerBase", arguments: Mapping[str, object]) -> None:
    """Raise UserError for an argument that the chat template does not mention, or that has the name
    of a parameter of `apply_chat_template`."""
    if not arguments:
        return
    names = set(re.findall(r"\w+", str(tokenizer.chat_template or "")))
    names -= {"messages", *inspect.signature(tokenizer.apply_chat_template).parameters}
    for name in arguments:
        if name not in names:
            raise UserError(
                f"data.chat.{shortened(name)}: the chat template of {tokenizer.name_or_path} takes "
                "no such argument"
            )


def writes_date(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Return whether the chat template may ask for the date."""
    return _CLOCK in str(tokenizer.chat_template)


def turn_end(tokenizer: "PreTrainedTokenizerBase") -> str | None:
    """Return the token with which the chat template ends the policy's turn. Return None
    without a template, if it fails, or if it does not end turns with a token."""
    if tokenizer.chat_template is None:
        return None
    turns = (("user", _QUESTIONS[1]), ("assistant", _REPLY))
    deadline = time.monotonic() + _SECONDS
    try:
        text = _rendered(tokenizer, turns, "a turn", deadline, is_prompt=False)
    except UserError:
        return None
    rest = text.rpartition(_REPLY)[2].strip()
    added = sorted(tokenizer.get_added_vocab(), key=len, reverse=True)
    return next((token for token in added if rest.startswith(token)), None)


def _rendered(
    tokenizer: "PreTrainedTokenizerBase",
    turns: Sequence[Turn],
    name: str,
    deadline: float,
    arguments: Mapping[str, object] = MappingProxyType({}),
    is_prompt: bool = True,
) -> str:
    """Render turns by the chat template, or as plain text without one.

    The template is untrusted code: it runs in a sandbox and within bounds. With `is_prompt` the
    policy goes on after the turns. Raises UserError if the template fails or leaves out a system
    turn.
    """
    if tokenizer.chat_template is None:
        return "\n\n".join(content for _, content in turns) + "\n"
    chat = [{"role": role, "content": content} for role, content in turns]
    template = f"{tokenizer.name_or_path}: its chat template"
    try:
        with bounded(max(_SHORTEST_S, deadline - time.monotonic()), _MEMORY):
            text = tokenizer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=is_prompt, **arguments
            )
        if not isinstance(text, str):
            raise TypeError("it gives no text")
        text.encode()
    except Exception as error:  # whatever a template may do
        reason = one_line(error) or "no reason given"
        advice = _NO_SYSTEM if "system" in reason.lower() and len(turns) > 1 else ""
        raise UserError(
            f"{template} fails on {name} ({type(error).__name__}: {reason}){advice}"
        ) from None
    if any(role == "system" and content.strip() not in text for role, content in turns):
        raise UserError(f"{template} leaves out the system turn{_NO_SYSTEM}")
    return text


def _encoded(text: str, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=tokenizer.chat_template is None)
    return ids


def forward_samples(
    tokenizer: "PreTrainedTokenizerBase", context: int
) -> list[tuple[list[int], list[int]]]:
    """Return (prompt, response) token ids on which to try a model's forward pass.

    They have several lengths and are rendered as in a run. Two prompts alternate, so that equal
    prompts are not neighbors. Each fits a context of `context` tokens: a question whose chat is too
    long, or empty, is plain text. Raises UserError if the template fails or nothing fits.
    """
    responses = [tokenizer.encode(text, add_special_tokens=False) for text in _RESPONSES]
    room = context - max(map(len, responses))
    prompts = []
    for question in _QUESTIONS:
        sample = Problem("of ours", question, None)
        rendered, _ = render_prompts([sample], tokenizer, "plain", context, context - room)
        token_ids = [token for prompt in rendered for token in prompt.token_ids]
        prompts.append(token_ids or _encoded(question, tokenizer)[:room])
    samples = [(prompts[i % len(prompts)], tokens) for i, tokens in enumerate(responses) if tokens]
    if room < 1 or not samples:
        raise UserError(f"a context of {context} tokens has no room for a short answer")
    return samples


def prompts_digest(prompts: Sequence[Prompt], responses: Sequence[Completion] = ()) -> str:
    """Return a checksum of problems, gold answers, prompts, and the responses of supervised
    training."""
    digest = hashlib.sha256()
    for prompt in prompts:
        row = (prompt.problem.id, prompt.problem.answer, prompt.text, prompt.token_ids)
        digest.update(json.dumps(row).encode() + b"\n")
    for completion in responses:
        digest.update(json.dumps(list(completion.token_ids)).encode() + b"\n")
    return digest.hexdigest()


def template_text(name: str) -> str:
    """Return the text of a template: a name of TEMPLATES, a text with {problem} in it, or a file
    with such a text. Raises UserError for anything else, and for another placeholder."""
    text = TEMPLATES.get(name, name)
    if not is_inline_template(name):
        if not Path(name).is_file():
            raise UserError(
                f"prompt {shortened(name)}: no such template; choose from {', '.join(TEMPLATES)}, "
                "or give a text or a file with {problem} in it"
            )
        with reading(f"prompt {name}"):
            text = Path(name).read_text(encoding="utf-8").rstrip("\n")
        if "{problem}" not in text:
            raise UserError(
                f"prompt {name}: the file has no {{problem}} in it, where the problem goes"
            )
    unknown = _UNKNOWN.search(text)
    if unknown is not None:
        raise UserError(
            f"prompt {shortened(name)}: {unknown[0]} is not known; only {{problem}} is put in"
        )
    return text
