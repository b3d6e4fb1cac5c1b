"""How good a model is: ranks, accuracy, transfer."""
