"""Online learners: one pass, one row at a time."""
