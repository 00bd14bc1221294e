"""Awkward models and data, and what must hold on each of them (docs/explanation/trust.md)."""
