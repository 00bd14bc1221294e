"""Plausible user errors and their results (docs/explanation/misuse.md)."""
