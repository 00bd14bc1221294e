"""Plausible mistakes, and what may come of them (docs/explanation/misuse.md)."""
