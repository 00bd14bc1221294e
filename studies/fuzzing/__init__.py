"""Difficult models and data for the fuzz, and the properties that must hold (docs/explanation/trust.md)."""
