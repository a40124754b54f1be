"""Problem sets as data: one YAML each, read by rlvr_cli.data.problems."""
