"""Read the rows of a problem set from datasets_cfg, the hub, a local copy, a file or stdin."""

import difflib
import re
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rlvr_cli.core.errors import UserError
from rlvr_cli.core.files import reading
from rlvr_cli.core.text import first_mistake, shortened
from rlvr_cli.core.types import FieldName
from rlvr_cli.core.yaml_text import LARGEST_YAML, load_yaml
from rlvr_cli.data import chains
from rlvr_cli.data.files import COPIES, SourceRow, file_rows, json_rows
from rlvr_cli.data.golds import Gold
from verifiers import Format

FILE_TYPES = (*COPIES, ".gz", ".yaml", ".yml")
DEFAULT_PROMPT = "think_answer"
_MOST_MADE = 20_000
"""Problems of one split that a procedure is asked for, which it makes in seconds."""
_PROCEDURAL = "procedural:chains"

Split = Literal["train", "test"]


class ProblemSetSpec(BaseModel):
    """A YAML of datasets_cfg, or the user's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str = "a problem set of one's own"
    version: int = 1
    license: str = "not said"
    source: str
    """`procedural:chains`, a hub id, or a file beside the YAML."""
    subset: str | None = None
    sizes: dict[Split, Annotated[int, Field(ge=1, le=_MOST_MADE)]] | None = None
    """Of the splits of a procedural set."""
    splits: dict[Split, str] | None = None
    """From `train` and `test` to the source's own names; one that is not named does not exist."""
    fields: dict[FieldName, str] | None = None
    gold: Gold | None = None
    prompt: str = DEFAULT_PROMPT
    answer_format: Format | None = None
    """How answers are judged; none means as the prompt asks for them."""

    @model_validator(mode="after")
    def _has_sizes(self) -> "ProblemSetSpec":
        if self.source.startswith("procedural:") and self.source != _PROCEDURAL:
            raise ValueError(f"no such procedure as {shortened(self.source)}; it is {_PROCEDURAL}")
        if self.source == _PROCEDURAL and not self.sizes:
            raise ValueError("a procedural set needs sizes, such as {train: 8192, test: 256}")
        return self

    def split_names(self) -> list[str]:
        """Return the splits that the set has."""
        return list(self.sizes or self.splits or ("train", "test"))


def known_sets() -> list[str]:
    """List the names in datasets_cfg."""
    files = resources.files("datasets_cfg").iterdir()
    return sorted(file.name[:-5] for file in files if file.name.endswith(".yaml"))


def canonical(source: str) -> str:
    """Return the set of a name in any case, hyphens, century (AIME_2024: aime24); others as is."""
    if source in known_sets() or Path(source).exists():
        return source
    return {_plain(name): name for name in known_sets()}.get(_plain(source), source)


def _plain(name: str) -> str:
    return re.sub(r"20(?=\d\d$)", "", re.sub(r"[-_ ]", "", name.lower()))


def find_spec(source: str) -> ProblemSetSpec | None:
    """Return the YAML of a name or a path; None for any other source. Raises UserError."""
    if source in known_sets():
        text = (resources.files("datasets_cfg") / f"{source}.yaml").read_text(encoding="utf-8")
    elif source.endswith((".yaml", ".yml")):
        with reading(shortened(source)), Path(source).open(encoding="utf-8") as file:
            text = file.read(LARGEST_YAML + 1)
    else:
        return None
    try:
        return ProblemSetSpec.model_validate(load_yaml(text))
    except ValueError as error:
        raise UserError(f"{source}: {first_mistake(error)}") from None


def set_version(source: str) -> int | None:
    """Return the version of a set in datasets_cfg; None for any other source."""
    spec = find_spec(source) if source in known_sets() else None
    return spec.version if spec else None


def bare_name(source: str) -> str:
    """Return the prefix of problem ids: the name of a set, or of a file without its directory, so
    that ids do not depend on the location."""
    is_file = source.endswith(FILE_TYPES) or Path(source).exists()
    return Path(source).name if is_file else source


def has_split(source: str, split: str) -> bool:
    """Return whether the source defines such a split itself (files and stdin have none)."""
    spec = find_spec(source)
    return spec is not None and split in spec.split_names()


def source_rows(source: str, split: str, root: str | None) -> Iterator[SourceRow]:
    """Yield the rows of any source; `root` is a directory of local copies. Raises UserError."""
    spec = find_spec(source)
    if spec is not None:
        return _spec_rows(source, spec, split, root)
    if source == "-":
        return json_rows("stdin", sys.stdin.buffer)
    if source.endswith(FILE_TYPES) or Path(source).exists():
        return file_rows(Path(source))
    if "/" in source:
        only = {cast(Split, split): split}
        spec = ProblemSetSpec.model_construct(source=source, splits=only)
        return _spec_rows(source, spec, split, root)
    names = {_plain(name): name for name in known_sets()}
    near = difflib.get_close_matches(_plain(source), names, 1)
    meant = f"did you mean {names[near[0]]}? Or " if near else ""
    known = ", ".join(names.values())
    raise UserError(
        f"{shortened(source)}: no such problem set; {meant}give one of {known}, a .jsonl, .parquet "
        "or .csv file, a hub id, or - for stdin"
    )


def _spec_rows(
    name: str, spec: ProblemSetSpec, split: str, root: str | None
) -> Iterator[SourceRow]:
    if split not in spec.split_names():
        raise UserError(f"{name}: it has no {split} split; it has {', '.join(spec.split_names())}")
    if spec.source == _PROCEDURAL:
        size = (spec.sizes or {})[cast(Split, split)]
        rows = chains.problems(split, size, seed=chains.SEED)
        return ((f"{name}:{n}", n, row) for n, row in enumerate(rows, 1))
    if spec.source.endswith(FILE_TYPES):
        return file_rows(Path(name).parent / spec.source)
    if root is not None:
        return file_rows(_local_copy(name, split, Path(root), spec.split_names()))
    return _hub_rows(name, spec, (spec.splits or {}).get(cast(Split, split), split))


def _local_copy(name: str, split: str, root: Path, splits: list[str]) -> Path:
    """Find `NAME_SPLIT` or `NAME/SPLIT` under the root, and plain `NAME` if it has one split."""
    stems = [f"{name}_{split}", f"{name}/{split}", *([name] if splits == [split] else [])]
    for path in (root / f"{stem}{suffix}" for stem in stems for suffix in COPIES):
        if path.is_file():
            return path
    looked = " or ".join(f"{stem}.jsonl" for stem in stems)
    raise UserError(f"{name}: {root} holds no {looked} (nor .parquet, nor .csv)")


def _hub_rows(name: str, spec: ProblemSetSpec, split: str) -> Iterator[SourceRow]:
    import datasets
    import huggingface_hub

    datasets.disable_progress_bars()
    huggingface_hub.logging.set_verbosity_error()
    try:
        data = datasets.load_dataset(spec.source, spec.subset, split=split)
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        copy = f"{name}_{split}.jsonl" if name != spec.source else f"{name}.jsonl"
        raise UserError(
            f"{spec.source}: the problem set cannot be loaded from the hub ({reason}); save a copy "
            f"as DIR/{copy} and add --set data.root=DIR, or give a .jsonl, .parquet or .csv file"
        ) from None
    return ((f"{spec.source}:{n}", n, dict(row)) for n, row in enumerate(data, 1))
