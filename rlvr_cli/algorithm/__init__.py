"""The parts of the step in which the papers differ, in the order of the loop: pure functions."""
