"""What other programs call the flags and settings of this one."""

import re

NAMES = {
    "--lr": "learning_rate actor_learning_rate actor_lr optim.lr",
    "optim.critic_lr": "critic_learning_rate critic.optim.lr",
    "--prompts": "batch_size per_device_train_batch_size train_batch_size rollout_batch_size "
    "generation_batch_size gradient_accumulation_steps data.train_batch_size",
    "optim.micro_tokens": "micro_train_batch_size ppo_micro_batch_size_per_gpu "
    "ppo_max_token_len_per_gpu log_prob_micro_batch_size_per_gpu",
    "algorithm.mini_batches": "ppo_mini_batch_size num_mini_batches steps_per_generation",
    "--samples": "num_generations n_samples_per_prompt num_samples group_size rollout.n",
    "--kl": "beta kl_coef init_kl_coef kl_loss_coef use_kl_loss",
    "--out": "output_dir out_dir save_path name run_name logging_dir default_local_dir "
    "trainer.experiment_name",
    "--steps": "max_steps num_train_steps total_training_steps num_train_epochs max_epochs "
    "total_epochs num_episodes",
    "algorithm.epochs": "epochs num_epochs ppo_epochs num_iterations num_ppo_epochs",
    "optim.precision": "bf16 fp16 dtype torch_dtype mixed_precision param_dtype",
    "--lora": "lora lora_r lora_rank lora_alpha use_peft peft",
    "optim.recompute": "gradient_checkpointing enable_gradient_checkpointing",
    "--track": "track report_to wandb tensorboard mlflow use_wandb wandb_project trainer.logger",
    "--reward": "reward reward_funcs reward_fn custom_reward_function remote_rm_url reward_model",
    "--system": "system_prompt system_message",
    "--prompt": "prompt_template input_template",
    "data.chat": "chat_template_kwargs apply_chat_template chat_template",
    "--eval-every": "eval_steps eval_interval test_freq trainer.test_freq",
    "checkpoint.every": "save_steps save_interval save_freq trainer.save_freq",
    "checkpoint.keep": "save_total_limit max_ckpt_num max_actor_ckpt_to_keep",
    "--max-tokens": "max_completion_length max_response_length generate_max_len max_new_tokens",
    "--model": "model_name_or_path pretrain actor_rollout_ref.model.path model_path",
    "--engine": "use_vllm vllm_mode rollout.name backend",
    "rollout.gpu_share": "vllm_gpu_memory_utilization gpu_memory_utilization",
    "algorithm.surrogate.low": "epsilon clip_ratio_low cliprange eps_clip clip_ratio clip_range",
    "algorithm.surrogate.high": "epsilon_high clip_ratio_high clip_eps_high",
    "algorithm.advantage.critic.coef": "vf_coef value_loss_coef",
    "algorithm.advantage.gamma": "gamma",
    "algorithm.advantage.lam": "lam lambd gae_lambda",
    "algorithm.entropy_coef": "ent_coef entropy_coeff entropy_loss_coef",
    "algorithm.aggregation": "loss_type loss_agg_mode scale_rewards",
    "algorithm.filter": "dynamic_filtering filter_groups.enable dynamic_sampling",
    "optim.grad_clip": "max_grad_norm max_norm grad_norm_clip clip_grad",
    "optim.warmup_steps": "lr_warmup_steps warmup_ratio lr_warmup_ratio",
    "optim.schedule": "lr_scheduler_type lr_scheduler",
    "DATA": "dataset dataset_name train_dataset prompt_data train_files data.train_files data",
    "eval.source": "eval_dataset val_files data.val_files test_dataset",
    "--field": "input_key label_key prompt_key columns dataset_text_field",
    "--resume": "resume_from_checkpoint load_checkpoint resume_mode",
    "--algo": "algorithm adv_estimator advantage_estimator loss algorithm.adv_estimator",
}
"""The names of TRL, verl, OpenRLHF and others, by what says it here."""
SENTENCES = {
    "push_to_hub": "nothing is sent anywhere; a checkpoint is a plain model directory",
    "hub_model_id": "nothing is sent anywhere; a checkpoint is a plain model directory",
    "device": "the GPU is taken where there is one; CUDA_VISIBLE_DEVICES= hides it",
    "no_cuda": "the GPU is taken where there is one; CUDA_VISIBLE_DEVICES= hides it",
}
_OURS = {name: ours for ours, listed in NAMES.items() for name in listed.split()}


def answer(name: str, known: set[str]) -> str | None:
    """Say what a foreign flag or setting is here, or that it has no counterpart; None for a name
    that no other program has either. `known` are the flags and settings that there are."""
    parts = re.sub("-", "_", name.lstrip("-").lower()).split(".")
    suffixes = [".".join(parts[start:]) for start in range(len(parts))]
    for suffix in suffixes:
        if suffix in SENTENCES:
            return f"{name}: {SENTENCES[suffix]}"
        if suffix in _OURS:
            ours = _OURS[suffix]
            if ours not in known:
                return f"{name} has no counterpart here yet"
            return (
                f"{name} is {ours if ours[:1] == '-' or ours.isupper() else f'--set {ours}=…'} here"
            )
    return None
