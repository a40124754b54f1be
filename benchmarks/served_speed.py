"""Measure the processor time of `rlvr eval --endpoint`, and that of its client alone.

python benchmarks/served_speed.py [--runs 3]

A server in another process answers 2,000 responses after 50 ms each, 64 in flight: one a problem,
and eight a problem. It alone takes 1.6 s by the clock for the first. Prints medians of what a
whole command costs, and of 2,000 calls of the client in a bare loop.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SERVER = Path(__file__).parents[1] / "tests" / "faulty_server.py"
MODEL = "org/model"
RESPONSES = 2000
IN_FLIGHT = 64


def processor_seconds(command: list[str]) -> float:
    """Run a command, and return the processor time of it and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def evaluated(url: str, samples: int) -> float:
    """Return what an evaluation with some samples a problem costs."""
    with tempfile.TemporaryDirectory() as place:
        problems = Path(place) / "sums.jsonl"
        rows = [
            {"problem": f"{number} + 3?", "answer": str(number + 3)}
            for number in range(RESPONSES // samples)
        ]
        problems.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = ["--endpoint", url, "--model", MODEL, "-n", str(samples)]
        command = [sys.executable, "-m", "rlvr_cli", "eval", str(problems), *options]
        return processor_seconds([*command, "--out", str(Path(place) / "out")])


async def call(url: str) -> None:
    """Ask the server with the client alone, as rlvr does."""
    import httpx2
    import openai

    numbers = iter(range(RESPONSES))

    async def work(client: openai.AsyncOpenAI) -> None:
        for number in numbers:
            messages = [{"role": "user", "content": f"{number} + 3?"}]
            body = {"model": MODEL, "messages": messages, "n": 1, "seed": number}
            await client.post("/chat/completions", cast_to=httpx2.Response, body=body)

    async with openai.AsyncOpenAI(api_key="none", base_url=url) as client:
        await asyncio.gather(*[work(client) for _ in range(IN_FLIGHT)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--calls", metavar="URL", help="Only call this server, in this process.")
    args = parser.parse_args()
    if args.calls:
        return asyncio.run(call(args.calls))
    with subprocess.Popen([sys.executable, SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().strip()
            measures: dict[str, Callable[[], float]] = {
                "eval of 2,000 problems, n = 1": lambda: evaluated(url, 1),
                "eval of 250 problems, n = 8": lambda: evaluated(url, 8),
                "2,000 calls of the client": lambda: processor_seconds(
                    [sys.executable, __file__, "--calls", url]
                ),
            }
            seconds = {
                name: [measure() for _ in range(args.runs)] for name, measure in measures.items()
            }
        finally:
            server.kill()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; processor seconds")
    for name, values in seconds.items():
        print(f"{statistics.median(values):6.2f}  {name}")
    return None


if __name__ == "__main__":
    main()
