"""Count the files and functions of rlvr_cli that a command calls.

    python benchmarks/files_called.py eval chains --limit 3 -n 1

Functions of all threads count, the code of modules and class bodies does not.
"""

import sys
import threading
from pathlib import Path
from types import FrameType

import rlvr_cli
from rlvr_cli.__main__ import main

ROOT = str(Path(rlvr_cli.__file__).parent)
called: set[tuple[str, str]] = set()


def profile(frame: FrameType, event: str, argument: object) -> None:
    """Note the function that is called, if it is one of ours."""
    code = frame.f_code
    is_ours = code.co_filename.startswith(ROOT)
    if event == "call" and is_ours and code.co_name != "<module>":
        called.add((code.co_filename, code.co_qualname))


def run() -> None:
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        main()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
        files = {Path(file).relative_to(ROOT) for file, _ in called}
        print(f"{len(files)} files, {len(called)} functions", file=sys.stderr)
        for file in sorted(files):
            functions = sorted(name for path, name in called if path == str(Path(ROOT) / file))
            print(f"{len(functions):4d} {file}: {', '.join(functions[:4])}", file=sys.stderr)


if __name__ == "__main__":
    run()
