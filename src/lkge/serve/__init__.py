"""A living graph over HTTP: questions, new facts, learning in the background, and a page."""
