"""The process around the mathematics: precision, device, memory, files, resuming, progress; nothing of models."""
