"""A living graph on disk: versions that are published whole, and facts that wait to be learned."""
