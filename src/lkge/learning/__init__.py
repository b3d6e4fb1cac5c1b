"""Learning snapshot by snapshot: the loop, one fit, the optimizer, checkpoints, progress."""
