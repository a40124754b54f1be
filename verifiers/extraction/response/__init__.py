"""How a response is written: its thought, its turns and letters, its passages."""
