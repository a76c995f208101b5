"""What a saved model is, what is proven of it, where it comes from, and which columns it leans on."""
