"""What makes the tables and figures of the papers, and what only these need."""
