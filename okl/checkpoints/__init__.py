"""Where a run stands, on disk, so that it goes on with the same bits after it was killed; reading it runs no code."""
