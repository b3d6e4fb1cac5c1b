"""The HTTP service of a living graph: queries, new facts, background learning, and a web page."""
