"""Learners pair an inference with an evidence and find the hyperparameters."""
