"""Test what the lectures claim of the algorithms in runs that anybody can repeat.

    python benchmarks/claims.py [CLAIM…] [--seeds 0,1,2,3,4] [--jobs 2]
    python benchmarks/claims.py --report                   # of the runs that are there

A claim is a plan of `rlvr ablate` in recipes/ablations. Arms whose name ends in `_all` take the
problems of the default run, the others its levels 1 to 8, where thirty steps show more. All plans
share one directory of runs, so that arms are shared and an interrupted command goes on where it
was. What they found is kept as ARM-SEED.json in benchmarks/results/claims (or --results DIRECTORY).
The report compares at equal steps, equal seconds and equal generated tokens, with 95 % intervals
over the seeds, and draws benchmarks/pictures/CLAIM.svg. Seconds are the processor's, without
measurements. Arms of TRL are rows of stored results, which `trl_run.py` makes.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from claims_report import kept_figures, report

from rlvr_cli.program.ablate import Wishes, plan_of, read_wishes
from rlvr_cli.runs.ablation import run_figures
from rlvr_cli.runs.summary import read_summary

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "benchmarks" / "pictures"
PLANS = ROOT / "recipes" / "ablations"
CLAIMS = (
    "default",
    "updates",
    "dapo",
    "dapo16",
    "ladder",
    "entropy",
    "length",
    "dead_groups",
    "critic",
    "baseline",
    "clip",
    "rows",
    "gap",
    "presets",
    "opd",
    "rest",
    "overlong",
    "token-loss",
    "majority",
)
TRL = {"default": "trl_all", "dapo": "trl"}
"""The arm of TRL in a claim."""


def wishes_of(claim: str) -> Wishes:
    """Return the plan of a claim."""
    return read_wishes(PLANS / f"{claim}.yaml")


def arms_of(claim: str) -> list[str]:
    """Return the arms of a claim, that of TRL first, then the base."""
    arms = list(plan_of(wishes_of(claim), None).arms)
    return [TRL[claim], *arms] if claim in TRL else arms


def make(claim: str, results: Path, options: list[str]) -> None:
    """Make the runs of a claim that are not there, and store what they found."""
    runs = results / "runs"
    command = [sys.executable, "-m", "rlvr_cli", "ablate", str(PLANS / f"{claim}.yaml")]
    subprocess.run([*command, "--out", str(runs), *options], check=False)
    for arm in arms_of(claim):
        for run in runs.glob(f"{arm}-*[0-9]"):
            path = results / f"{run.name}.json"
            if read_summary(run).after is not None and not path.exists():
                path.write_text(json.dumps(_rounded(kept_figures(run_figures(run)))))


def _rounded(value: Any) -> Any:
    """Round the figures of a run."""
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "claims")
    parser.add_argument("claims", nargs="*", help=f"of {', '.join(CLAIMS)}; none means all")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--report", action="store_true", help="make no run")
    args = parser.parse_args()
    unknown = [name for name in args.claims if name not in CLAIMS]
    if unknown:
        parser.error(f"no such claim: {', '.join(unknown)}; it is one of {', '.join(CLAIMS)}")
    claims = args.claims or CLAIMS
    if not args.report:
        for claim in claims:
            make(claim, args.results, ["--seeds", args.seeds, "--jobs", args.jobs])
    for claim in claims:
        wishes = wishes_of(claim)
        report(claim, wishes.title, arms_of(claim), wishes.figure, args.results, PICTURES)


if __name__ == "__main__":
    main()
