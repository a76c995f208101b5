"""Feature maps z(x) with z(x)'z(x') ~ k(x, x')."""
