"""What is said about a tokenizer's chat template."""

import json
import shutil
from pathlib import Path

import pytest

import rlvr_cli

TINY = Path(rlvr_cli.__file__).parent / "tiny"
OPENS_THINK = (
    "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}\n<think>"
    "{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "the tokenizer has no chat template: prompts are put as plain text"),
        (OPENS_THINK, "opens <think> by itself"),
    ],
)
def test_a_missing_template_and_one_that_opens_think_are_said(rlvr, tmp_path, template, message):
    model = tmp_path / "model"
    shutil.copytree(TINY, model)
    if template is None:
        (model / "chat_template.jinja").unlink()
    else:
        (model / "chat_template.jinja").write_text(template)
    result = rlvr("sample", "What is 1 + 1?", "--model", "./model")
    assert result.returncode == 0, result.stderr
    assert message in result.stderr
    prompt = json.loads(result.stdout)["prompt"]
    assert prompt.endswith("<think>") == (template is not None)
    assert message not in rlvr("sample", "What is 1 + 1?").stderr
