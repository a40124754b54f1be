#!/bin/sh
# How the files of this directory were made, in an empty one that has reward.py, problems.jsonl and
# held_out.jsonl, with commit c2a10d8, torch 2.13 and transformers 5.19 on a CPU.
set -e
python - <<'PYTHON'
import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

import rlvr_cli

torch.manual_seed(0)
config = Qwen2Config(
    vocab_size=275,
    hidden_size=8,
    intermediate_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    max_position_embeddings=256,
    tie_word_embeddings=True,
    eos_token_id=257,
    pad_token_id=256,
    bos_token_id=None,
)
model = AutoModelForCausalLM.from_config(config)
with torch.no_grad():
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.mul_(20)
model.save_pretrained("model")
tiny = Path(rlvr_cli.__file__).parent / "tiny"
for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
    shutil.copy(tiny / name, Path("model") / name)
PYTHON
train() {
    rlvr train problems.jsonl --model model --algo grpo --kl 0.01 --reward reward.py --prompts 2 \
        -n 4 --max-tokens 12 --lr 0.01 --set optim.warmup_steps=0 --set eval.source=held_out.jsonl \
        --set eval.limit=3 --set eval.samples=2 --set checkpoint.keep=1 --set checkpoint.every=1 \
        --set threads=1 "$@"
}
train --steps 2 --out run
train --steps 3 --out unbroken # of which metrics.jsonl and step-000003.jsonl are here
rlvr eval held_out.jsonl --model run -n 4 --max-tokens 12 --set threads=1 --out result
