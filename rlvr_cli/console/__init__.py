"""What people see: progress, tables, curves."""
