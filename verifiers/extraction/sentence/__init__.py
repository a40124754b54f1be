"""What a sentence states: its last value, a word, several values, a bound."""
