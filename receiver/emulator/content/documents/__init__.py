"""Text of PDF and office files. Each file is read in a process of its own, with a limit of time and memory."""
