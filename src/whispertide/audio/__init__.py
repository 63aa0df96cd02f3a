"""Audio input and voice detection: files, pipes, microphones, buffers, the voice gate."""
