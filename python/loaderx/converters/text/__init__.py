"""Tables as text: rows of a CSV file, and what their columns hold."""
