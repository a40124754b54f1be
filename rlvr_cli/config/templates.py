"""Name the templates of prompts that are built in."""

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


def is_inline_template(name: str) -> bool:
    """Return whether the template is a name or a text, not a file."""
    return name in TEMPLATES or "{problem}" in name


def refused_template(name: str) -> str | None:
    """Say why a model's own settings may not name this template: no other file is read for it."""
    if is_inline_template(name):
        return None
    return (
        f"is neither {', '.join(TEMPLATES)} nor a text with {{problem}} in it, and no other file "
        "is read for a model"
    )
