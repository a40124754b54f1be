"""Hold what fits a smaller card against full precision: 8-bit moments and a 4-bit base.

python benchmarks/card_settings.py --seeds 0 1 2
python benchmarks/card_settings.py --ways "8-bit moments" "NF4 base" -- --prompts 4

Trains a real chat model on additions for ten steps (`recipes/smollm2.yaml`), once for each way and
seed. Prints pass@1 on held-out problems before and after, and the paired difference after training
to the way in full precision that each is held against. Of those held against one, prints pass@1 of
the policy that trained and of its export, which has a full-precision base. More options of rlvr
train go after --.
"""

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import additions
import smollm
from real_model import interval, rlvr, train


class Way(NamedTuple):
    """Options of rlvr train, and the way in full precision that is held against them."""

    options: tuple[str, ...]
    against: str | None = None


ADAPTER = ("--lora", "32", "--lr", "2e-4")
"""An adapter with ten times the recipe's learning rate, as rlvr's default is."""
WAYS = {
    "all weights": Way(()),
    "8-bit moments": Way(("--set", "optim.moments=8bit"), against="all weights"),
    "adapter": Way(ADAPTER),
    "NF4 base": Way((*ADAPTER, "--set", "lora.base=nf4"), against="adapter"),
}


def paired(place: Path, way: str, seed: int) -> str:
    """Return the difference to full precision on the same problems, with its interval."""
    against = WAYS[way].against
    other = place / str(against) / f"transformers-{seed}" / "pass-after"
    if against is None or not other.is_dir():
        return ""
    run = place / way / f"transformers-{seed}"
    responses = str(run / "rollouts" / "held-out-after.jsonl")
    out = run / "paired"
    rlvr("eval", "--responses", responses, "--out", str(out), "--against", str(other))
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    (result,) = report["against"]["results"]
    return interval({"pass@1": result["pass@k"]["1"]})


def exported(run: Path, held_out: str) -> str:
    """Return pass@1 of a run's policy and of its export."""
    export = run / "export"
    rlvr("export", str(run), "--out", str(export))
    figures = []
    for name, model in (("policy", run), ("export", export)):
        out = run / f"measured-{name}"
        rlvr("eval", held_out, "--model", str(model), "--samples", "1", "--out", str(out))
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        (result,) = report["results"]
        figures.append(f"{name} {interval({'pass@1': result['pass@k']['1']})}")
    return ", ".join(figures)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a hub id or a directory; none: fetched from the registry")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--out", type=Path, help="a directory; none: runs/card-TIME")
    parser.add_argument("options", nargs="*", help="more options of rlvr train, after --")
    args = parser.parse_args()
    place = args.out or Path("runs") / f"card-{time.strftime('%Y%m%d-%H%M%S')}"
    model = args.model or str(smollm.cached_model())
    additions.write(place / "problems")
    sources = tuple(str(place / "problems" / name) for name in ("train.jsonl", "heldout.jsonl"))
    print("| way | seed | pass@1 before | after | paired | of a core | exported |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for seed in args.seeds:
        for way in args.ways:
            options = [*WAYS[way].options, *args.options]
            figures = train(sources, model, "transformers", seed, place / way, options)
            run = place / way / f"transformers-{seed}"
            cells = (
                way,
                str(seed),
                interval(figures["before"]),
                interval(figures["after"]),
                paired(place, way, seed),
                f"{figures['cpu_minutes']:.1f} min",
                exported(run, sources[1]) if WAYS[way].against is not None else "",
            )
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
