"""The process around the mathematics: precision, device, memory, threads, files, journals, progress."""
