"""What people type: commands, options, and the settings they resolve to."""
