"""Name what is built in: the problem sets of datasets_cfg, and the templates of prompts."""

import re
from importlib import resources
from pathlib import Path

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


def known_sets() -> list[str]:
    """List the names in datasets_cfg."""
    files = resources.files("datasets_cfg").iterdir()
    return sorted(file.name[:-5] for file in files if file.name.endswith(".yaml"))


def canonical(source: str) -> str:
    """Return a set's own spelling of its name (AIME_2024: aime24). Return any other source
    unchanged."""
    if source in known_sets() or Path(source).exists():
        return source
    return sets_by_normal_name().get(normal_name(source), source)


def sets_by_normal_name() -> dict[str, str]:
    """Return the names in datasets_cfg by their normal names."""
    return {normal_name(name): name for name in known_sets()}


def normal_name(name: str) -> str:
    """Return the name in lower case, without hyphens, underscores, spaces and a year's century."""
    return re.sub(r"20(?=\d\d$)", "", re.sub(r"[-_ ]", "", name.lower()))


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
