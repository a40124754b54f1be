"""Reward a response with the score of a sequence classifier, such as a trained reward model.

    REWARD_MODEL=Skywork/Skywork-Reward-V2-Qwen3-0.6B rlvr train problems.jsonl \
        --reward math --reward examples/reward_model.py:0.1 --set reward.workers=1 \
        --set reward.memory_mb=1000000 --set reward.timeout=60

Each of reward.workers processes loads the model, in the time of its first response. Their limit
of memory counts addresses, and CUDA reserves more of them than it uses.
"""

import math
import os
from functools import cache

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

MODEL = os.environ["REWARD_MODEL"]
DEVICE = os.environ.get("REWARD_DEVICE", "cpu")
LONGEST = 4096  # tokens of problem and response; more get no score


@cache
def _load():
    """Return the tokenizer, and the classifier, which has one label."""
    model, info = AutoModelForSequenceClassification.from_pretrained(
        MODEL, num_labels=1, dtype="auto", use_safetensors=True, output_loading_info=True
    )
    if info["missing_keys"]:  # they would be random numbers
        raise ValueError(f"{MODEL} is no classifier: it has no {sorted(info['missing_keys'])}")
    return AutoTokenizer.from_pretrained(MODEL), model.eval().to(DEVICE)


@torch.no_grad()
def reward(problem, response):
    """Return the score of a response. None is no verdict."""
    tokenizer, model = _load()
    if tokenizer.chat_template is None:
        token_ids = tokenizer.encode(problem["problem"], response)
    else:
        turns = [("user", problem["problem"]), ("assistant", response)]
        chat = [{"role": role, "content": content} for role, content in turns]
        text = tokenizer.apply_chat_template(chat, tokenize=False)
        token_ids = tokenizer.encode(text, add_special_tokens=False)
    if len(token_ids) > LONGEST:
        return None
    score = model(input_ids=torch.tensor([token_ids], device=DEVICE)).logits[0, 0].item()
    return score if math.isfinite(score) else None
