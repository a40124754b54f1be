"""What this command does on this machine: the plan, the memory it needs, the session it opens."""
