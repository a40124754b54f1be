"""What a run needs (plan, memory), the session that opens it, the sampler, and the engines."""
