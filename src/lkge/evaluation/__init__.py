"""Evaluation: filtered ranking, metrics, results."""
