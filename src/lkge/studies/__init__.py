"""Studies: many runs (systems × datasets × seeds), their tables, and the search for settings."""
