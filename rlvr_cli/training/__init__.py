"""The loop, top to bottom: batches, forward passes, update, throughput."""
