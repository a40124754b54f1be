"""Run the default run on a terminal of 100 columns and draw its screen as an SVG.

python benchmarks/picture.py docs/run.svg                    # the picture in README.md
python benchmarks/picture.py out.svg --steps 4 --prompts 4   # any options of rlvr train
"""

import argparse
import io
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from fcntl import ioctl
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS, ROWS = 100, 50
HEAD, TAIL = 20, 50
"""Lines from the begin and from the end that are drawn."""
_PIECE = re.compile(
    r"\x1b\[(\d*)([A-Z])|\x1b\[\?\d+[hl]|(\r?\n)|(\r)|((?:\x1b\[[\d;]*m|[^\x1b\r\n])+)"
)
_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def screen(output: str) -> list[str]:
    """Return the lines that a terminal shows in the end, with their colors: a bar that was drawn
    over is gone."""
    lines = [""]
    row = 0
    for count, command, newline, start, text in _PIECE.findall(output):
        if command == "A":
            row = max(0, row - int(count or 1))
        elif command == "K":
            lines[row] = ""
        elif newline:
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif start:
            continue
        elif text:
            lines[row] += text
    return lines


def shortened(lines: list[str]) -> list[str]:
    """Return the first and the last lines with a mark between them."""
    lines = "\n".join(lines).strip("\n").split("\n")
    return lines if len(lines) <= HEAD + TAIL else [*lines[:HEAD], "  ⋮", *lines[-TAIL:]]


def svg(lines: list[str], title: str) -> str:
    """Return the SVG, which asks no other place for a font."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True, overflow="crop")
    return _FONT_FACE.sub("", console.export_svg(title=title))


def run(arguments: list[str]) -> str:
    """Run `rlvr` in a terminal and return all it wrote. Raises SystemExit if it fails."""
    child, terminal = pty.fork()
    if not child:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        os.execv(sys.executable, [sys.executable, "-m", "rlvr_cli", *arguments])
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    written = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:
            piece = b""
        if not piece:
            break
        written += piece
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        sys.exit(f"rlvr ended with {code}: {written.decode(errors='replace')[-500:]}")
    return written.decode(errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    out, options = parser.parse_known_args()
    out = out.out.resolve()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        written = run(["train", "--algo", "dapo", *options])
    out.write_text(svg(shortened(screen(written)), "rlvr train --algo dapo"), encoding="utf-8")


if __name__ == "__main__":
    main()
