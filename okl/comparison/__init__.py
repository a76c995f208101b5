"""The search for the right model: many models, each over its valid range, on the same folds, with the same judge."""
