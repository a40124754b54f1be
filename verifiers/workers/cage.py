"""End foreign work as a whole: a process, its children, and theirs, wherever they went.

A worker that runs the code of others is a child of a keeper. The keeper ends everything below it as
soon as the worker ends, the command ends (its pipe closes, also after SIGKILL), or there are too
many processes. Where this user may make one, the worker lives in a namespace of processes, whose
first process takes all others along and cannot be seen or signalled from within. Elsewhere the
keeper adopts what loses its parent (PR_SET_CHILD_SUBREAPER), and ends descendants until none is
left. Without Linux only the process group is ended.
"""

import atexit
import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x00020000  # from <linux/sched.h>
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_REC = 0x4000  # from <linux/mount.h>
MS_SLAVE = 0x80000
LOOK_MS = 100
"""Milliseconds between two looks at what is there, each about 0.1 ms of the processor."""
END_LIMIT_S = 10.0
"""Seconds for which processes are ended again: one in a system call of a dead disk never ends."""
IS_WHOLE = sys.platform == "linux"
"""Whether children that left the process group are ended too."""


class _EndedError(Exception):
    """Says that the keeper was asked to end."""


def enter(parent: int, pipe: int, processes: int | None) -> None:
    """Return in a child, and stay behind as its keeper, which ends with `os._exit`.

    `pipe` is the reading end of a pipe of which only the process `parent` has the other end. The
    child and what it starts are at most so many `processes`. None means any number, and no
    namespace, in which programs that change the user (sudo, podman) do not run. What the keeper
    says, as that there were too many, goes to descriptor 1 as a reply.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    signal.setitimer(signal.ITIMER_REAL, 0)
    child = None
    with contextlib.suppress(_EndedError):
        adopt_orphans()
        is_apart = processes is not None and _may_be_apart()
        if is_apart:
            _leave_processes()
        child = os.fork()
        if child == 0:
            if is_apart:
                _be_first()
            _become_worker()
            return
        reason = _watch(child, parent, pipe, processes, is_apart)
        if reason:
            end_descendants(child)
            with contextlib.suppress(OSError):
                os.write(1, f'{{"lost": "{reason}"}}\n'.encode())
    end_descendants(child)
    os._exit(0)


def adopt_orphans() -> None:
    """Make this process the parent of descendants that lose theirs, where the system can do so."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_this() -> None:
    """Have all that descends from this process end when it ends regularly, after what libraries
    end themselves."""
    adopt_orphans()
    atexit.register(end_descendants)


def end_descendants(group: int | None = None) -> None:
    """Kill everything that descends from this process, until none is left, and the process `group`
    where descendants cannot be listed."""
    deadline = time.monotonic() + END_LIMIT_S
    if group is not None and not IS_WHOLE:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    pids = descendants()
    while pids and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        pids = descendants()
        if pids:
            time.sleep(0.005)


def descendants() -> list[int]:
    """List the processes below this one, parents before their children."""
    pids: list[int] = []
    unread = [os.getpid()]
    while unread:
        parent = unread.pop(0)
        for task in _entries(f"/proc/{parent}/task"):
            with contextlib.suppress(OSError):  # it has ended
                children = Path(f"/proc/{parent}/task/{task}/children").read_text()
                below = [int(pid) for pid in children.split()]
                pids += below
                unread += below
    return pids


def tie_to_parent() -> None:
    """Have this process killed when its parent ends, where the system can do so."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch(child: int, parent: int, pipe: int, processes: int | None, is_apart: bool) -> str:
    """Wait for the end of the child or of the command. Return why the child has to end, if it was
    neither."""
    poller = select.poll()
    poller.register(pipe, 0)  # which tells when the other end is closed, and not what is in it
    largest = None if processes is None else processes + is_apart  # the first of a namespace too
    while True:
        is_closed = poller.poll(LOOK_MS)
        if is_closed or os.getppid() != parent or child in _reap():
            return ""
        if largest is not None and len(descendants()) > largest:
            return f"more than {processes} processes"


def _reap() -> set[int]:
    """Take notice of children that have ended. Return their process ids."""
    ended: set[int] = set()
    with contextlib.suppress(ChildProcessError):
        pid, _ = os.waitpid(-1, os.WNOHANG)
        while pid:
            ended.add(pid)
            pid, _ = os.waitpid(-1, os.WNOHANG)
    return ended


def _may_be_apart() -> bool:
    """Return whether this user may make a namespace of processes, by making one."""
    return IS_WHOLE and _succeeds(_try_apart)


def _try_apart() -> bool:
    _leave_processes()
    return _succeeds(_mount_processes)


def _succeeds(attempt: Callable[[], object]) -> bool:
    """Make an attempt in a fork, which changes nothing here. Return whether it worked out."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(OSError, AttributeError):
            code = int(attempt() is False)
        os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def _leave_processes() -> None:
    """Have the next children of this process in a namespace of their own. Raises OSError if this
    user may not do that.

    Users other than root need a namespace of users for it, in which they stay who they are.
    """
    uid = os.geteuid()
    gid = os.getegid()
    if uid == 0:
        _call("unshare", CLONE_NEWPID)
        return
    _call("unshare", CLONE_NEWUSER | CLONE_NEWPID)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _mount_processes() -> None:
    """Mount a /proc that shows the processes of the namespace, for this process and its children.
    Raises OSError if this user may not do that."""
    _call("unshare", CLONE_NEWNS)
    _call("mount", b"none", b"/", None, MS_REC | MS_SLAVE, None)
    _call("mount", b"proc", b"/proc", b"proc", 0, None)


def _be_first() -> None:
    """Return in a child, and stay behind as the first process of a namespace, until the child
    ends. The kernel then ends all others there."""
    tie_to_parent()
    _mount_processes()
    child = os.fork()
    if child == 0:
        return
    while os.wait()[0] != child:
        pass
    os._exit(0)


def _become_worker() -> None:
    """Have a session of its own, the usual handling of signals, and an end with the keeper."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tie_to_parent()


def _end(number: int, frame: FrameType | None) -> None:
    raise _EndedError


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value)


def _call(name: str, *arguments: bytes | int | None) -> None:
    """Call a function of the C library. Raises OSError if it fails."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
