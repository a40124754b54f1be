"""Find where a response states its answer, by the rules of `verifiers/README.md`."""
