"""A folder for each published idea: how words are confirmed, and how sound is heard for it."""
