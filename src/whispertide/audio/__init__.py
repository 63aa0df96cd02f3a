"""Where audio comes from and when it is speech: files, pipes, microphones, buffers, the voice gate."""
