"""What is learned, and how it scores: tables, score functions, losses, and the frozen predictor."""
