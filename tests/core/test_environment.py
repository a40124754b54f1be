"""What the environment holds: left out where it is empty, one line where it is unusable."""

import pytest

from rlvr_cli.core.environment import check_proxies, thread_count, whole_number
from rlvr_cli.core.errors import UserError
from rlvr_cli.ranks.process import local_world, rank

NAMES = ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS")
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def _bare(monkeypatch):
    for name in (*NAMES, *PROXIES, *map(str.upper, PROXIES)):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("text", "number"), [("", 7), (" 3 ", 3), ("0", 0), ("007", 7)])
def test_a_whole_number(text, number, monkeypatch):
    monkeypatch.setenv("RANK", text)
    assert whole_number("RANK", 7) == number


@pytest.mark.parametrize("text", ["abc", "-1", "1.0", "1e3", "٣", "1 2", "${RANK}", "9" * 30])
@pytest.mark.parametrize("name", ["WORLD_SIZE", "LOCAL_WORLD_SIZE"])
def test_what_is_no_number_is_one_line(text, name, monkeypatch):
    monkeypatch.setenv(name, text)
    with pytest.raises(UserError, match=rf"^{name}=.*: not a whole number from 1 on; .* unset"):
        local_world()


def test_a_rank_is_below_the_number_of_processes(monkeypatch):
    monkeypatch.setenv("RANK", "left over")
    assert rank() == 0  # one process alone does not ask
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match=r"^RANK=left over: not a whole number"):
        rank()
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(UserError, match=r"^RANK=2: not below WORLD_SIZE=2"):
        rank()
    monkeypatch.setenv("RANK", "1")
    assert rank() == 1


@pytest.mark.parametrize(("text", "count"), [("", None), ("4", 4), ("4,2,1", 4), (" 02 ", 2)])
def test_threads(text, count, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert thread_count() == count


@pytest.mark.parametrize("text", ["abc", "0", "-2", "4;2", "all", "1.5"])
def test_threads_that_are_none(text, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    with pytest.raises(UserError, match=r"^OMP_NUM_THREADS=.*: not a number of threads; "):
        thread_count()


@pytest.mark.parametrize("name", ["https_proxy", "HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize(
    "text", ["http://[half", "ftp://u:secret@h:1", "http://h:99999", "http://", "http://h:x"]
)
def test_a_proxy_that_is_none_is_one_line_without_its_text(name, text, monkeypatch):
    for good in ("h:3128", "http://u:secret@h:1", "socks5h://h", "https://[::1]:8", ""):
        monkeypatch.setenv(name, good)
        check_proxies()
    monkeypatch.setenv(name, text)
    with pytest.raises(UserError, match=f"^{name}: not the URL of a proxy") as refused:
        check_proxies()
    assert "secret" not in str(refused.value)
