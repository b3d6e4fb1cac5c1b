"""Many runs as one piece of work: a study of systems and datasets, and the search for settings."""
