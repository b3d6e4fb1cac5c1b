"""Training: one snapshot, a run over snapshots, optimizers, checkpoints, events."""
