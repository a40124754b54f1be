"""What other programs call the flags and settings of this one (`foreign.yaml`)."""

from importlib import resources

from rlvr_cli.core.yaml_text import load_yaml


def foreign_names() -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the names of other programs by ours, and sentences by names that have none here."""
    file = resources.files("rlvr_cli") / "config" / "foreign.yaml"
    table = load_yaml(file.read_text(encoding="utf-8"))
    said = {theirs: text for text, listed in table["sentences"].items() for theirs in listed}
    return table["names"], said


def foreign_answer(name: str) -> str | None:
    """Say what a foreign flag or setting is here; None for a name that no other program has."""
    names, sentences = foreign_names()
    ours_of = {theirs: ours for ours, listed in names.items() for theirs in listed}
    parts = name.lstrip("-").lower().replace("-", "_").split(".")
    for suffix in (".".join(parts[start:]) for start in range(len(parts))):
        if suffix in sentences:
            return f"{name}: {sentences[suffix]}"
        if ours := ours_of.get(suffix):
            is_flag = ours.startswith("--") or ours.isupper()
            return f"{name} is {ours if is_flag else f'--set {ours}=…'} here"
    return None
