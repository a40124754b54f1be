"""What a command shows of an error, and the code it ends with."""

import pytest
import typer

from rlvr_cli.cli.errors import reported_errors
from rlvr_cli.core.errors import EngineError, Finding, ReportedError, RunStoppedError, UserError


@pytest.mark.parametrize(("kind", "code"), [(UserError, 2), (EngineError, 2), (RunStoppedError, 3)])
def test_each_error_is_one_line_with_its_exit_code(kind, code, capsys):
    with pytest.raises(typer.Exit) as ended, reported_errors():
        raise kind("so it is")
    assert ended.value.exit_code == code
    assert capsys.readouterr().err == "rlvr: error: so it is\n"


def test_a_fault_of_an_engine_is_not_the_users():
    assert issubclass(EngineError, ReportedError)
    assert not issubclass(EngineError, UserError)
    assert not issubclass(RunStoppedError, UserError)


def test_a_finding_warns_unless_it_says_otherwise():
    assert not Finding("late").is_error
    assert Finding("late", is_error=True) != Finding("late")
