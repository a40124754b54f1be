"""From a problem to the token ids the policy continues."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlvr_cli.core.types import Problem, Prompt, UserError
from verifiers import Format

_SHORT = 60
TEMPLATES = {
    "plain": "{problem}",
    "think_answer": (
        "{problem}\n\nThink step by step between <think> and </think>, then give only the final "
        "answer between <answer> and </answer>."
    ),
    "boxed": (
        "{problem}\n\nPlease reason step by step, and put your final answer within \\boxed{}."
    ),
}
_QUESTIONS = ("What is 47 * 6 + 15?", "Add 2 and 3.")
_RESPONSES = (
    "<think>47 * 6 = 282, and 282 + 15 = 297</think><answer>297</answer>",
    "5",
    "It is 297.",
    "Two and three are five, so the answer is \\boxed{5}.",
)
FORMATS: dict[str, Format] = {"think_answer": "think_answer", "boxed": "boxed"}
"""How answers are judged where a template asks for a format; elsewhere any form will do."""


def render_prompts(
    problems: Sequence[Problem], tokenizer: Any, template: str, context: int, max_tokens: int
) -> tuple[list[Prompt], list[str]]:
    """Every problem as a prompt, through the tokenizer's chat template if it has one.

    Returns the prompts that leave room for `max_tokens` in a context of `context` tokens, and for
    each other problem one line that says so. Raises UserError for an unknown template.
    """
    asked = template_text(template)
    prompts, too_long = [], []
    longest = context * max(map(len, tokenizer.get_vocab()))
    for problem in problems:
        name = f"problem {problem.id[:_SHORT]}"
        if len(problem.problem) > longest:
            length = len(problem.problem)
            too_long.append(f"{name}: {length} characters cannot fit a context of {context} tokens")
            continue
        content = asked.replace("{problem}", problem.problem)
        text = _through_chat_template(content, tokenizer)
        token_ids = _encoded(text, tokenizer)
        if len(token_ids) + max_tokens > context:
            too_long.append(
                f"{name}: its prompt of {len(token_ids)} tokens and a response of "
                f"{max_tokens} do not fit the model's context of {context}"
            )
            continue
        think_open = text.rstrip().endswith("<think>")
        prompts.append(Prompt(problem, text, tuple(token_ids), think_open))
    return prompts, too_long


def forward_samples(tokenizer: Any) -> list[tuple[list[int], list[int]]]:
    """Prompts and ragged responses as (token ids, token ids), rendered as a run's, to try a model's
    forward pass on: two prompts in turn, so that a response stands far from its own."""
    prompts = [_encoded(_through_chat_template(text, tokenizer), tokenizer) for text in _QUESTIONS]
    responses = [tokenizer.encode(text, add_special_tokens=False) for text in _RESPONSES]
    return [(prompts[i % len(prompts)], tokens) for i, tokens in enumerate(responses) if tokens]


def prompts_digest(prompts: Sequence[Prompt]) -> str:
    """A checksum of the problems, their golds and how they are put to the policy."""
    digest = hashlib.sha256()
    for prompt in prompts:
        row = (prompt.problem.id, prompt.problem.answer, prompt.text, prompt.token_ids)
        digest.update(json.dumps(row).encode() + b"\n")
    return digest.hexdigest()


def template_text(name: str) -> str:
    """A template of TEMPLATES, or a file's. Raises UserError if it is neither, or asks nothing."""
    if name in TEMPLATES:
        return TEMPLATES[name]
    known = f"choose from {', '.join(TEMPLATES)}, or give a file with {{problem}} in it"
    if not Path(name).is_file():
        raise UserError(f"prompt {name}: no such template; {known}")
    try:
        text = Path(name).read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"prompt {name}: cannot be read ({error})") from None
    if "{problem}" not in text:
        raise UserError(f"prompt {name}: the file has no {{problem}} in it, where the problem goes")
    return text


def _encoded(text: str, tokenizer: Any) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=tokenizer.chat_template is None)
    return ids


def _through_chat_template(content: str, tokenizer: Any) -> str:
    if tokenizer.chat_template is None:
        return f"{content}\n"
    chat = [{"role": "user", "content": content}]
    return tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
