"""Hold what the runs of TRL on a CPU have alike: plain sampling, no reference, nothing kept."""

ALIKE = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "top_p": 1.0,
    "top_k": 0,
    "beta": 0.0,
    "max_grad_norm": 1.0,
    "logging_strategy": "no",
    "report_to": [],
    "save_strategy": "no",
    "disable_tqdm": True,
    "dataloader_num_workers": 0,
}
"""Arguments of `GRPOConfig`."""
