"""From a problem to the token ids the policy continues."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from rlvr_cli.types import Problem, Prompt, UserError

_SHORT = 60
TEMPLATES = {
    "plain": "{problem}",
    "think_answer": (
        "{problem}\n\nThink step by step between <think> and </think>, then give only the final "
        "answer between <answer> and </answer>."
    ),
}


def render_prompts(
    problems: Sequence[Problem], tokenizer: Any, template: str, context: int, max_tokens: int
) -> tuple[list[Prompt], list[str]]:
    """Every problem as a prompt, through the tokenizer's chat template if it has one.

    Returns the prompts that leave room for `max_tokens` in a context of `context` tokens, and for
    each other problem one line that says so. Raises UserError for an unknown template.
    """
    if template not in TEMPLATES:
        raise UserError(f"prompt {template}: no such template; choose from {', '.join(TEMPLATES)}")
    prompts, too_long = [], []
    longest = context * max(map(len, tokenizer.get_vocab()))
    for problem in problems:
        name = f"problem {problem.id[:_SHORT]}"
        if len(problem.problem) > longest:
            length = len(problem.problem)
            too_long.append(f"{name}: {length} characters cannot fit a context of {context} tokens")
            continue
        content = TEMPLATES[template].replace("{problem}", problem.problem)
        text = _through_chat_template(content, tokenizer)
        token_ids = tokenizer.encode(text, add_special_tokens=tokenizer.chat_template is None)
        if len(token_ids) + max_tokens > context:
            too_long.append(
                f"{name}: its prompt of {len(token_ids)} tokens and a response of "
                f"{max_tokens} do not fit the model's context of {context}"
            )
            continue
        think_open = text.rstrip().endswith("<think>")
        prompts.append(Prompt(problem, text, tuple(token_ids), think_open))
    return prompts, too_long


def prompts_digest(prompts: Sequence[Prompt]) -> str:
    """A checksum of the problems, their golds and how they are put to the policy."""
    digest = hashlib.sha256()
    for prompt in prompts:
        row = (prompt.problem.id, prompt.problem.answer, prompt.text, prompt.token_ids)
        digest.update(json.dumps(row).encode() + b"\n")
    return digest.hexdigest()


def _through_chat_template(content: str, tokenizer: Any) -> str:
    if tokenizer.chat_template is None:
        return f"{content}\n"
    chat = [{"role": "user", "content": content}]
    return tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
